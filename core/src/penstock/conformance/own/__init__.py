"""The suites of what the core itself ships: `penstock conformance generator`, `json`, ..."""
