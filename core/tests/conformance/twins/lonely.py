"""A connector that is installed, but without the module by which Spark would find it."""

from attrs import evolve

from penstock.conformance.reference.folder import connector as folder
from twins.making import TWINS, Twin

connector = evolve(folder, name="lonely")
TWINS.append(Twin("SHP-05", connector, "folder", {}))
