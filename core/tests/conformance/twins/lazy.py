"""A connector whose own module is light; what it names by its place is not."""

from attrs import evolve

from penstock.conformance.reference.folder import connector as folder
from twins.making import TWINS, Twin

connector = evolve(folder, name="twin-lazy", source="twins.heavy:ImportsSpark")
TWINS.append(Twin("SHP-04", connector, "folder", {}))
