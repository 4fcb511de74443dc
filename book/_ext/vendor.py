"""Vendor what a page would otherwise fetch from elsewhere: `make vendor`, which needs npm.

Each package is a folder of `book/_static` with its licence and the checksums of its files.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).resolve().parents[1] / "_static"
CHECKSUMS = "SHA256SUMS"

# Components of MathJax that mathematics.js puts together: its own combinations are twice as heavy,
# with a menu and MathML as an input. Beside them the fonts, and the extensions that the autoloader
# fetches on first use of a macro such as \\boldsymbol.
OUTPUT = ("output/chtml", "output/chtml/fonts/tex")
COMPONENTS = ("startup", "core", "input/tex", *OUTPUT, "a11y/assistive-mml")
AUTOLOADED = "action amscd bbox boldsymbol braket bussproofs cancel color enclose extpfeil html"
AUTOLOADED += " mhchem newcommand unicode verb"
MATHJAX = {f"es5/{name}.js" for name in COMPONENTS}
MATHJAX |= {f"es5/input/tex/extensions/{name}.js" for name in AUTOLOADED.split()}
MATHJAX_FONTS = "es5/output/chtml/fonts/woff-v2/"
SERIF = {
    f"files/source-serif-4-latin-{s}.woff2" for s in ("400-normal", "400-italic", "600-normal")
}


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    sha1: str
    folder: str
    prefix: str  # of the names inside the package, not kept
    wanted: Callable[[str], bool]

    def vendor(self, archive: Path, target: Path) -> None:
        found = hashlib.sha1(archive.read_bytes()).hexdigest()
        if found != self.sha1:
            raise ValueError(f"{archive.name}: SHA-1 expected {self.sha1}, got {found}")
        shutil.rmtree(target, ignore_errors=True)
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                name = member.name.removeprefix("package/")
                if member.isfile() and (name == "LICENSE" or self.wanted(name)):
                    path = target / name.removeprefix(self.prefix)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())
        (target / CHECKSUMS).write_text(checksums(target), encoding="utf8")


PACKAGES = [
    Package(
        "mathjax",
        "3.2.2",
        "c754d7b46a679d7f3fa03543d6b8bf124ddf9f6b",
        "mathjax",
        "es5/",
        lambda name: name in MATHJAX or name.startswith(MATHJAX_FONTS),
    ),
    Package(
        "@fontsource/source-serif-4",
        "5.3.1",
        "5e18891c59e9ca900020d4c362c1f0a66a3e1fd5",
        "fonts",
        "files/",
        SERIF.__contains__,
    ),
]


def checksums(target: Path) -> str:
    """One line a vendored file, in the format of `sha256sum`."""
    files = sorted(p for p in target.rglob("*") if p.is_file() and p.name != CHECKSUMS)
    rows = [
        (hashlib.sha256(p.read_bytes()).hexdigest(), p.relative_to(target).as_posix())
        for p in files
    ]
    return "".join(f"{digest}  {name}\n" for digest, name in rows)


def main() -> int:
    for package in PACKAGES:
        with tempfile.TemporaryDirectory() as folder:
            name = f"{package.name}@{package.version}"
            subprocess.run(
                ["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
            package.vendor(next(Path(folder).glob("*.tgz")), STATIC / package.folder)
        print(f"{name} is in {STATIC / package.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
