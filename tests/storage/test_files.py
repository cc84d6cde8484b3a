"""Files that are whole or not there, whoever else writes beside; arrays come back as they were."""

import os
import secrets
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ilbo.storage import arrays as arrayfile
from ilbo.storage.files import WriteError, remove_temporaries, write_atomically


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, [b"old"])

    def broken():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match="no space left"):
        write_atomically(path, broken())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_threads_that_write_one_file_leave_one_of_their_contents_whole(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([i]) * 100_000 for i in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            list(threads.map(lambda data: write_atomically(path, [data[:9], data[9:]]), contents))
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("planted", ["link", "file"])
def test_what_stands_at_the_temporary_name_is_neither_written_nor_removed(
    tmp_path, monkeypatch, planted
):
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)
    letter, place = tmp_path / "letter.txt", tmp_path / ".ilbo-0000000000000000.tmp"
    letter.write_text("mine")
    if planted == "link":
        place.symlink_to(letter)
    else:
        place.write_text("mine")
    with pytest.raises(WriteError, match="file exists"):
        write_atomically(tmp_path / "file", [b"new"])
    assert letter.read_text() == place.read_text() == "mine"
    assert not (tmp_path / "file").exists()


def test_only_temporary_files_of_this_package_are_removed(tmp_path):
    kept = [".mine.tmp", ".notes.123.tmp", "ilbo-0123456789abcdef.tmp", ".ilbo-old.tmp"]
    for name in (*kept, ".ilbo-0123456789abcdef.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_arrays_of_all_stored_types_come_back(tmp_path):
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.zeros((0, 4), np.int32),
        "scalar": np.array(True),
        "big-endian": np.arange(3, dtype=">u4"),
        "strided": np.arange(10, dtype=np.float64)[::2],
    }
    arrayfile.write(tmp_path / "x", "test", {"note": "ü"}, arrays)
    header, back = arrayfile.read(tmp_path / "x", "test")
    assert header["note"] == "ü"
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].shape == array.shape
    with pytest.raises(TypeError):
        arrayfile.write(tmp_path / "y", "test", {}, {"objects": np.array([object()])})
