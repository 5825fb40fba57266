"""XML: rows by XPath, parsed trees that travel within a chain, and a filter over them."""
