"""Sessions: feeds, fetches, and the cache of compiled steps."""
