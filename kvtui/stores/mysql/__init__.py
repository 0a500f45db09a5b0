"""MySQL and MariaDB: by PyMySQL, or on the wire by prepared statements."""
