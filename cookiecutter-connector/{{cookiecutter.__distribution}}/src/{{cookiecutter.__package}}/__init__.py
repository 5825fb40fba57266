"""{{ cookiecutter.__name }} for Penstock."""
