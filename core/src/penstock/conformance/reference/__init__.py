"""Small, real connectors, one per shape: what the suite is tested with and the template starts from."""
