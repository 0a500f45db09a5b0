"""Parts that several screens use, all drawn by kvtui itself."""
