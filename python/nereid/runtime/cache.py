"""Files of compiled kernels and of tuning results: one folder for each key below `knobs.cache.dir`.

A manager is made for a key (hexadecimal digits) and then keeps files by name; groups name several files at once. Files appear whole or not
at all, also when several processes write the same one. `knobs.cache.manager_class` puts another manager in place, and
`knobs.cache.remote_manager_class` is what `RemoteCacheManager` asks.
"""

import base64
import functools
import hashlib
import json
import os
import tempfile
from abc import ABC, abstractmethod
from typing import Dict, List, Optional

from .. import knobs


def _base32(key):
    """A hexadecimal key as a name of a folder."""
    return base64.b32encode(bytes.fromhex(key)).decode("utf-8").rstrip("=")


class CacheManager(ABC):
    """Keeps files of one key."""

    def __init__(self, key, override=False, dump=False):
        pass

    @abstractmethod
    def get_file(self, filename) -> Optional[str]:
        """The path of a file; None when it is not there."""

    @abstractmethod
    def put(self, data, filename, binary=True) -> str:
        """Writes a file; gives its path."""

    @abstractmethod
    def get_group(self, filename: str) -> Optional[Dict[str, str]]:
        """The files of a group that are there: paths by name; None when there is no such group."""

    @abstractmethod
    def put_group(self, filename: str, group: Dict[str, str]):
        """Makes a group of files that are there: paths by name."""


class FileCacheManager(CacheManager):
    """A folder of this machine. `dump` and `override` choose the folders of those knobs."""

    def __init__(self, key, override=False, dump=False):
        self.key = key
        base = knobs.cache.dump_dir if dump else knobs.cache.override_dir if override else knobs.cache.dir
        if not base:
            raise RuntimeError("Could not create or locate cache dir")
        self.cache_dir = os.path.join(base, key)
        self.lock_path = None
        if not override:
            self.lock_path = os.path.join(self.cache_dir, "lock")
            os.makedirs(self.cache_dir, exist_ok=True)

    def _make_path(self, filename) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename) -> bool:
        """Whether a file is there."""
        return os.path.exists(self._make_path(filename))

    def get_file(self, filename) -> Optional[str]:
        path = self._make_path(filename)
        return path if os.path.exists(path) else None

    def get_group(self, filename: str) -> Optional[Dict[str, str]]:
        path = self.get_file(_group_name(filename))
        if path is None:
            return None
        with open(path) as file:
            group = json.load(file).get("child_paths")
        if group is None:
            return None
        return {name: path for name, path in group.items() if os.path.exists(path)}

    def put_group(self, filename: str, group: Dict[str, str]) -> str:
        return self.put(json.dumps({"child_paths": group}), _group_name(filename), binary=False)

    def put(self, data, filename, binary=True) -> str:
        if self.lock_path is None:
            raise RuntimeError("the override folder is read only: its files are yours")
        data = data if isinstance(data, bytes) else str(data).encode()
        os.makedirs(self.cache_dir, exist_ok=True)
        path = self._make_path(filename)
        handle, temporary = tempfile.mkstemp(prefix=f".{filename}.", dir=self.cache_dir)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        return path


@functools.lru_cache(None)
def _umask():
    value = os.umask(0o22)
    os.umask(value)
    return value


def _group_name(filename):
    return f"__grp__{filename}"


class RemoteCacheBackend(ABC):
    """Files of one key that are kept elsewhere."""

    def __init__(self, key: str):
        pass

    @abstractmethod
    def get(self, filenames: List[str]) -> Dict[str, bytes]:
        """The contents of those files that are there."""

    @abstractmethod
    def put(self, filename: str, data: bytes):
        """Keeps a file."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """A Redis server (`knobs.redis`); needs the package `redis`."""

    def __init__(self, key):
        try:
            import redis
        except ImportError as error:
            raise ImportError("RedisRemoteCacheBackend needs the Python package `redis`") from error
        self._key = key
        self._key_fmt = knobs.redis.key_format
        self._redis = redis.Redis(host=knobs.redis.host, port=knobs.redis.port)

    def _get_key(self, filename: str) -> str:
        return self._key_fmt.format(key=self._key, filename=filename)

    def get(self, filenames: List[str]) -> Dict[str, bytes]:
        results = self._redis.mget([self._get_key(name) for name in filenames])
        return {name: data for name, data in zip(filenames, results) if data is not None}

    def put(self, filename: str, data: bytes) -> None:
        self._redis.set(self._get_key(filename), data)


class RemoteCacheManager(CacheManager):
    """Files of a remote cache (`knobs.cache.remote_manager_class`), copied into a folder of this machine when they are asked for."""

    def __init__(self, key, override=False, dump=False):
        if knobs.cache.remote_manager_class is None:
            raise RuntimeError("Unable to instantiate RemoteCacheManager, TRITON_REMOTE_CACHE_BACKEND doesn't point to a valid class")
        self._backend = knobs.cache.remote_manager_class(key)
        self._override = override
        self._dump = dump
        # Files that are dumped or overridden are local.
        self._file_cache_manager = FileCacheManager(key, override=override, dump=dump)

    def _materialize(self, filename: str, data: bytes):
        return self._file_cache_manager.put(data, filename, binary=True)

    def get_file(self, filename: str) -> Optional[str]:
        if self._override:
            return self._file_cache_manager.get_file(filename)
        found = self._backend.get([filename])
        if not found:
            return None
        return self._materialize(filename, found[filename])

    def put(self, data, filename: str, binary=True) -> str:
        if self._dump:
            return self._file_cache_manager.put(data, filename, binary=binary)
        data = data if isinstance(data, bytes) else str(data).encode("utf-8")
        self._backend.put(filename, data)
        return filename

    def get_group(self, filename: str) -> Optional[Dict[str, str]]:
        path = self.get_file(_group_name(filename))
        if path is None:
            return None
        with open(path) as file:
            names = json.load(file)
        found = self._backend.get(list(names))
        return {name: self._materialize(name, data) for name, data in found.items()}

    def put_group(self, filename: str, group: Dict[str, str]):
        return self.put(json.dumps(sorted(group)), _group_name(filename))


def get_cache_manager(key) -> CacheManager:
    """The manager of the files of a key."""
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key))


def get_override_manager(key) -> CacheManager:
    """The manager of the files that take the place of stages (`knobs.compilation.override`)."""
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key), override=True)


def get_dump_manager(key) -> CacheManager:
    """The manager of the files that stages are written to (`knobs.compilation.dump_ir`)."""
    return (knobs.cache.manager_class or FileCacheManager)(_base32(key), dump=True)


@functools.lru_cache
def triton_key():
    """Identifies this compiler: equal for equal versions, built alike."""
    from .. import __version__, _native
    with open(_native.__file__, "rb") as file:
        extension = hashlib.file_digest(file, "sha256").hexdigest()
    return f"nereid-{__version__}-{extension}-{_native.library()['build']}"


def get_cache_key(src, backend, backend_options, env_vars):
    """The text whose hash names a compiled kernel: compiler, source, backend, options, variables."""
    return f"{triton_key()}-{src.hash()}-{backend.hash()}-{backend_options.hash()}-{sorted(env_vars.items())}"


def make_so_cache_key(version_hash, signature, constants, ids, **kwargs):
    """A name for a compiled launcher."""
    signature = {name: "ptr" if text[0] == "*" else text for name, text in signature.items()}
    parts = [f"{version_hash}", *signature.values(), f"{constants}", f"{ids}", *(f"{kwargs.get(name)}" for name in kwargs)]
    return _base32(hashlib.sha256("-".join(parts).encode("utf-8")).hexdigest())
