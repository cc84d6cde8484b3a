"""JAX's cache on disk: found again, checked, apart for each kind of processor, never too large."""

import os
from pathlib import Path

import jax
import pytest
from process import run_python

from ilbo.storage import cache

KEEP = """
import os, random, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from ilbo.storage.cache import cache_folder, keep_compiled_programs
keep_compiled_programs()
folder = cache_folder()
@jax.jit
def waves(x):
    return jnp.sin(jnp.sort(x)) + jnp.mean(x)
def call():
    jax.clear_caches()
    return np.asarray(waves(np.linspace(0, 1, 64, dtype=np.float32))).tobytes()
def entry():
    (path,) = folder.glob("jit_waves-*")
    return path
"""


def test_tests_leave_the_users_cache_alone(cache_of_the_tests):
    tests = cache_of_the_tests
    cache.keep_compiled_programs()  # as a command does
    assert Path(jax.config.jax_compilation_cache_dir).is_relative_to(tests)
    assert cache.programs_folder().is_relative_to(tests)
    said = run_python(KEEP + "call(); print(entry())")  # as a command in its own process does
    assert Path(said.strip()).is_relative_to(tests)


def test_a_second_process_finds_what_the_first_compiled(tmp_path):
    code = KEEP + "call(); print(entry().stat().st_mtime_ns, len(list(folder.iterdir())))"
    first, second = (run_python(code, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    assert first == second


def test_a_damaged_entry_is_noticed_and_replaced(tmp_path):
    run_python(
        KEEP
        + """
first, whole, draw = call(), entry().read_bytes(), random.Random(0)
for _ in range(40):
    damaged = bytearray(whole)
    damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    entry().write_bytes(damaged)
    assert call() == first
    assert entry().read_bytes() != damaged
    whole = entry().read_bytes()
    inode = entry().stat().st_ino
    assert call() == first and entry().stat().st_ino == inode  # and the new one is found
""",
        XDG_CACHE_HOME=str(tmp_path),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_entry_of_another_user_is_not_read(tmp_path):
    run_python(
        KEEP
        + """
first = call()
os.chown(entry(), 65534, -1)
assert call() == first
assert entry().stat().st_uid == os.geteuid()
""",
        XDG_CACHE_HOME=str(tmp_path),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_cache_folder_of_another_user_is_not_used(tmp_path):
    run_python(KEEP + "call()", XDG_CACHE_HOME=str(tmp_path))
    (folder,) = (tmp_path / "ilbo" / "jax").iterdir()
    os.chown(folder, 65534, -1)
    code = KEEP + "call(); assert not jax.config.jax_compilation_cache_dir"
    run_python(code, XDG_CACHE_HOME=str(tmp_path))


def test_a_cache_folder_that_cannot_be_written_breaks_nothing(tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    code = KEEP + "call(); assert not jax.config.jax_compilation_cache_dir"
    run_python(code, XDG_CACHE_HOME=str(tmp_path / "cache"))


def test_nothing_is_kept_where_jax_would_not_check_it(tmp_path):
    code = "from jax._src import compilation_cache as c; del c.get_file_cache\n" + KEEP
    run_python(
        code + "assert not jax.config.jax_compilation_cache_dir", XDG_CACHE_HOME=str(tmp_path)
    )


def test_each_kind_of_processor_has_a_folder_of_its_own(tmp_path, monkeypatch):
    def folder(text):
        monkeypatch.setattr(cache, "CPUINFO", tmp_path / "cpuinfo")
        cache.CPUINFO.write_text(text)
        return cache.cache_folder()

    old = folder("model name : x\nflags : avx2\ncpu MHz : 1\n")
    assert folder("model name : x\nflags : avx2\ncpu MHz : 2\n") == old
    assert folder("model name : x\nflags : avx2 avx512f\n") != old
    # Where nothing is told of the processor, machines share nothing.
    monkeypatch.setattr(cache, "CPUINFO", tmp_path / "none")
    found = set()
    for name in ("one", "two"):
        monkeypatch.setattr("platform.node", lambda name=name: name)
        found.add(cache.cache_folder())
    assert len(found) == 2


def test_the_oldest_programs_make_room_once_a_day(tmp_path, monkeypatch):
    def add(name, age):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(10))
        os.utime(path, times=(1e9 - age,) * 2)

    def names():
        return sorted(path.name for path in tmp_path.rglob("*") if path.is_file())

    monkeypatch.setattr(cache, "LIMIT", 25)
    for name, age in (("a", 1), ("programs/b", 3), ("c", 2)):
        add(name, age)
    cache._prune(tmp_path)
    assert names() == ["a", "c", "looked"]
    add("d", 4)
    cache._prune(tmp_path)
    assert "d" in names()
    os.utime(tmp_path / "looked", times=(0, 0))
    cache._prune(tmp_path)
    assert "d" not in names()
