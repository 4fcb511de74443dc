"""Vendor MathJax so that formulas need no network: `make mathjax`, which needs npm.

Only what the book can ask for is kept: the combined TeX component, its fonts, and the extensions
that the component's autoloader fetches on first use of a macro such as `\\boldsymbol`.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.2.2"
SHA1 = "c754d7b46a679d7f3fa03543d6b8bf124ddf9f6b"
TARGET = Path(__file__).resolve().parents[1] / "_static" / "mathjax"
CHECKSUMS = "SHA256SUMS"

AUTOLOADED = "action amscd bbox boldsymbol braket bussproofs cancel color enclose extpfeil html"
AUTOLOADED += " mhchem newcommand unicode verb"
EXTENSIONS = [f"es5/input/tex/extensions/{name}.js" for name in AUTOLOADED.split()]
COMPONENT = "es5/tex-mml-chtml.js"
FONTS = "es5/output/chtml/fonts/woff-v2/"


def wanted(name: str) -> bool:
    return name in ("LICENSE", COMPONENT, *EXTENSIONS) or name.startswith(FONTS)


def vendor(archive: Path, target: Path) -> None:
    found = hashlib.sha1(archive.read_bytes()).hexdigest()
    if found != SHA1:
        raise ValueError(f"{archive.name}: SHA-1 expected {SHA1}, got {found}")
    shutil.rmtree(target, ignore_errors=True)
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            name = member.name.removeprefix("package/")
            if member.isfile() and wanted(name):
                path = target / name.removeprefix("es5/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())
    (target / CHECKSUMS).write_text(checksums(target), encoding="utf8")


def checksums(target: Path) -> str:
    """One line a vendored file, in the format of `sha256sum`."""
    files = sorted(p for p in target.rglob("*") if p.is_file() and p.name != CHECKSUMS)
    rows = [
        (hashlib.sha256(p.read_bytes()).hexdigest(), p.relative_to(target).as_posix())
        for p in files
    ]
    return "".join(f"{digest}  {name}\n" for digest, name in rows)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", f"mathjax@{VERSION}"], cwd=folder, check=True)
        vendor(next(Path(folder).glob("mathjax-*.tgz")), TARGET)
    print(f"MathJax {VERSION} is in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
