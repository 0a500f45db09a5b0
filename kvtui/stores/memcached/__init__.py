"""memcached: by pymemcache, or on the wire by its meta commands."""
