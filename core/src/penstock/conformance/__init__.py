"""What proves a connector: the counting oracle, the kill harness and the suite itself."""
