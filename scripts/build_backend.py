"""The build backend of pyproject.toml: scikit-build-core, and a wheel that says which glibc it needs.

The shared libraries are linked so that no symbol newer than glibc 2.34 is used (scripts/check_wheel.py makes sure), so the wheel is
tagged manylinux_2_34 instead of the bare `linux` of the machine it was built on.
"""

import base64
import hashlib
import os
import re
import zipfile

from scikit_build_core.build import *  # noqa: F401, F403
from scikit_build_core.build import build_wheel as _build_wheel

GLIBC = "manylinux_2_34"


def _record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def _retag(path):
    folder, name = os.path.split(path)
    new_name = re.sub(r"-linux_(\w+)\.whl$", rf"-{GLIBC}_\1.whl", name)
    if new_name == name:
        return name
    new_path = os.path.join(folder, new_name)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new_path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        changed = {}
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(".dist-info/WHEEL"):
                data = re.sub(rb"-linux_", b"-" + GLIBC.encode() + b"_", data)
                changed[info.filename] = data
            if info.filename.endswith(".dist-info/RECORD"):
                lines = [line for line in data.decode().splitlines() if line.split(",")[0] not in changed]
                data = "\n".join([_record_line(n, d) for n, d in changed.items()] + lines + [""]).encode()
            info.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(info, data, compresslevel=9)
    os.remove(path)
    return new_name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = _build_wheel(wheel_directory, config_settings, metadata_directory)
    return _retag(os.path.join(wheel_directory, name))
