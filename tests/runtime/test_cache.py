"""`runtime.cache` and allocators: what clients use of them."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import nereid
import pytest
from nereid import knobs
from nereid.runtime import _allocation, cache

KEY = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    for name in ("CACHE", "DUMP", "OVERRIDE"):
        monkeypatch.setenv(f"TRITON_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path


class Elsewhere(cache.RemoteCacheBackend):
    files = {}

    def __init__(self, key):
        self.key = key

    def get(self, filenames):
        return {name: self.files[name] for name in filenames if name in self.files}

    def put(self, filename, data):
        self.files[filename] = data


class Manager(cache.FileCacheManager):
    pass


def test_files(folders):
    manager = cache.get_cache_manager(KEY)
    assert manager.key == "AERUKZ4JVPG66AJDIVTYTK6N54ASGRLHRGV433YBENCWPCNLZXXQ"
    path = manager.put(b"\0\1", "k.cubin")
    assert path == str(folders / "cache" / manager.key / "k.cubin") == manager.get_file("k.cubin")
    assert open(path, "rb").read() == b"\0\1" and manager.has_file("k.cubin")
    assert open(manager.put("text", "k.ptx", binary=False)).read() == "text"
    assert manager.get_file("other") is None and not manager.has_file("other")
    assert sorted(os.listdir(manager.cache_dir)) == ["k.cubin", "k.ptx"]


def test_groups():
    manager = cache.get_cache_manager(KEY)
    assert manager.get_group("k.json") is None
    paths = {name: manager.put(name, name) for name in ("a", "b")}
    manager.put_group("k.json", paths)
    assert manager.get_group("k.json") == paths
    os.unlink(paths["a"])
    assert manager.get_group("k.json") == {"b": paths["b"]}


def test_files_appear_whole():
    manager = cache.get_cache_manager(KEY)
    texts = [bytes([i]) * 200_000 for i in range(8)]
    seen = set()
    with ThreadPoolExecutor(8) as executor:
        writing = [executor.submit(manager.put, text, "k") for text in texts * 3]
        while not all(future.done() for future in writing):
            if manager.has_file("k"):
                with open(manager.get_file("k"), "rb") as file:
                    data = file.read()
                assert len(data) == 200_000
                seen.add(data[0])
    with open(manager.get_file("k"), "rb") as file:
        assert file.read() in texts
    assert os.listdir(manager.cache_dir) == ["k"]


def test_dump_and_override(folders):
    assert cache.get_dump_manager(KEY).put(b"x", "f").startswith(str(folders / "dump"))
    override = cache.get_override_manager(KEY)
    assert not override.has_file("f") and not (folders / "override").exists()
    with pytest.raises(RuntimeError, match="the override folder is read only"):
        override.put(b"x", "f")


def test_other_managers(monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_MANAGER", f"{__name__}:Manager")
    assert type(cache.get_cache_manager(KEY)) is Manager
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "nereid.runtime.cache:RemoteCacheManager")
    monkeypatch.delenv("TRITON_REMOTE_CACHE_BACKEND", raising=False)
    with pytest.raises(RuntimeError, match="TRITON_REMOTE_CACHE_BACKEND doesn't point to a valid class"):
        cache.get_cache_manager(KEY)
    monkeypatch.setenv("TRITON_REMOTE_CACHE_BACKEND", f"{__name__}:Elsewhere")
    manager = cache.get_cache_manager(KEY)
    manager.put("data", "f")
    assert Elsewhere.files == {"f": b"data"} and open(manager.get_file("f")).read() == "data"
    manager.put_group("g", {"f": "f"})
    assert set(manager.get_group("g")) == {"f"} and manager.get_file("h") is None


def test_redis_needs_its_package():
    with pytest.raises(ImportError, match="needs the Python package `redis`"):
        cache.RedisRemoteCacheBackend("k")


def test_the_key_of_the_compiler():
    assert cache.triton_key() == cache.triton_key() and cache.triton_key().startswith(f"nereid-{nereid.__version__}")


def test_allocators_belong_to_the_context():
    with pytest.raises(RuntimeError, match="Kernel requires a runtime memory allocation, but no allocator was set. "
                       "Use triton.set_allocator to specify an allocator."):
        _allocation._allocator.get()(1, 2, None)
    seen = []

    def run():
        nereid.set_allocator(lambda size, alignment, stream: size)
        seen.append(_allocation._allocator.get()(5, 1, None))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [5] and _allocation._allocator.get() is _allocation._NULL_ALLOCATOR


def test_the_allocator_of_profiles():
    assert not _allocation.has_profile_allocator()
    _allocation.set_profile_allocator(lambda size, alignment, stream: size)
    assert _allocation.has_profile_allocator() and _allocation._profile_allocator(3, 1, None) == 3
    _allocation.set_profile_allocator(None)
    assert not _allocation.has_profile_allocator()


def test_knobs_name_the_folders(folders):
    assert knobs.cache.dir == str(folders / "cache")
