"""roamlet itself as a bundle: for a target that can run its C core, so that calls there are tasklets."""

from importlib import util
from pathlib import Path

from roamlet.remote.errors import CannotTravel
from roamlet.remote.modules import bundle
from roamlet.remote.modules.finding import sources
from roamlet.remote.modules.finding.sources import Location, Missing
from roamlet.remote.modules.native import extensions
from roamlet.remote.modules.native.platforms import Platform

_PACKAGES = (
    *("roamlet", "roamlet.core", "roamlet.sync", "roamlet.io", "roamlet.io._workers"),
    *("roamlet.threads", "roamlet.stackless"),
)
# Of the switching backends the one that needs no wheel of another project.
_NATIVE = ("roamlet.core._native", "roamlet.sync._native", "roamlet.io._native")
_SNAPSHOT = (
    "roamlet.snapshot",
    *(f"roamlet.snapshot.{part}" for part in ("image", "loading", "migration", "references", "saving")),
)
_SNAPSHOT_NATIVE = ("roamlet.snapshot._native",)
_STAY = ("__main__", "_runner")


def core(platform: Platform) -> "bundle.Bundle":
    """All of roamlet but contexts and commands. What is in it stays the same, so it is built once for all targets.

    Raises CannotTravel, naming both platforms, when the C core cannot run on `platform`. Blocks for some 50 ms the first time.
    """
    return _bundle(_names(_PACKAGES) + list(_NATIVE), platform)


def snapshot(platform: Platform) -> "bundle.Bundle":
    """roamlet.snapshot, for a target that has the rest; as `core` otherwise."""
    return _bundle(_names(_SNAPSHOT) + list(_SNAPSHOT_NATIVE), platform)


def _bundle(names: list[str], platform: Platform) -> "bundle.Bundle":
    found = [extensions.fitting(sources.find_own(name), platform) for name in names]
    modules = tuple(one for one in found if isinstance(one, Location))
    for one in found:
        if isinstance(one, Missing):
            why = one.reason.removesuffix(extensions.advice("roamlet"))
            raise CannotTravel(f"{why or f'{one.name} is not here'}.")
    return bundle.of_locations(modules)


def _names(packages: tuple[str, ...]) -> list[str]:
    names = []
    for package in packages:
        names.append(package)
        spec = util.find_spec(package)
        for place in (spec and spec.submodule_search_locations) or ():
            stems = sorted(path.stem for path in Path(place).glob("*.py"))
            names += [f"{package}.{stem}" for stem in stems if stem not in ("__init__", *_STAY)]
    return names
