"""Files that only the user can have written: any other, and any damaged one, is as good as none."""

import os
import stat

import numpy as np
import pytest

from ilbo.storage.private import PrivateFiles

OTHER_USER = 65534
VALUE = bytes(range(64))
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def files(tmp_path):
    files = PrivateFiles(tmp_path / "a" / "b")
    files.put("name", VALUE)
    return files


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_bytes_come_back(files):
    assert files.get("name") == VALUE
    files.put("name", b"")
    assert files.get("name") == b""
    assert files.get("another") is None
    assert os.listdir(files.folder) == ["name"]


def test_folders_and_files_are_made_for_the_user_alone(tmp_path):
    before = os.umask(0)
    try:
        PrivateFiles(tmp_path / "a" / "b").put("name", VALUE)
    finally:
        os.umask(before)
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a" / "b" / "name") == 0o600


def test_an_open_folder_of_the_users_own_is_closed(files):
    files.folder.chmod(0o777)
    PrivateFiles(files.folder)
    assert mode(files.folder) == 0o700


@as_root
def test_a_folder_of_another_user_is_refused(files):
    os.chown(files.folder, OTHER_USER, -1)
    with pytest.raises(OSError, match="another user"):
        PrivateFiles(files.folder)


@as_root
def test_a_file_of_another_user_is_replaced(files):
    path = files.folder / "name"
    os.chown(path, OTHER_USER, -1)
    assert files.get("name") is None
    files.put("name", VALUE)
    assert files.get("name") == VALUE
    assert path.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("others", [0o620, 0o602])
def test_a_file_that_others_can_write_is_replaced(files, others):
    path = files.folder / "name"
    path.chmod(others)
    assert files.get("name") is None
    files.put("name", VALUE)
    assert files.get("name") == VALUE
    assert mode(path) == 0o600


def test_neither_links_nor_pipes_nor_folders_are_read(files, tmp_path):
    others = PrivateFiles(tmp_path / "others")
    (others.folder / "name").symlink_to(files.folder / "name")
    os.mkfifo(others.folder / "pipe", 0o600)
    (others.folder / "folder").mkdir(0o700)
    assert [others.get(name) for name in ("name", "pipe", "folder")] == [None] * 3


def test_a_file_under_another_name_is_not_that_file(files):
    os.rename(files.folder / "name", files.folder / "another")
    assert files.get("another") is None


def test_every_flipped_bit_and_every_cut_is_noticed(files):
    path = files.folder / "name"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged.tobytes())
        assert files.get("name") is None, bit
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert files.get("name") is None, length
