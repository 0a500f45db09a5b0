"""MongoDB: by pymongo, or on the wire by OP_MSG."""
