"""Pushing and pulling: what comes back is what went, or nothing does and it is said why."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

import tercet as tc
from support.commands import ok, run
from tercet.errors import (
    BundleError,
    DamagedBundleError,
    InputError,
    MissingBundleError,
    MissingExtraError,
    TransferError,
    VersionError,
)
from tercet.store import MANIFEST_NAME
from tercet.store.atomic import exchange_folders
from tercet.store.manifest import sealed
from tercet.transfer import FILES, LIST_NAME, Depot, Pushed, PushedFile, prune, pull, push, pushed_at

DOCS = {"a": "green tea leaves", "b": "black tea", "c": "milk and honey"}


@pytest.fixture(params=["folder", "memory"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path / "place" / "shop")
        return
    yield "memory://place/shop"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved_model(tmp_path / "model", ["green tea", "black tea"])


def saved_model(path: Path, texts: list[str]) -> Path:
    tc.TextModel.bm25(texts).save(path)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def written(address: str, name: str, data: bytes | None) -> None:
    """Put other bytes in the place of a file that was pushed, or take it away."""
    files, path = fsspec.core.url_to_fs(address)
    if data is None:
        files.rm_file(f"{path}/{name}")
    else:
        files.pipe_file(f"{path}/{name}", data)


def test_a_model_comes_back_byte_for_byte(address: str, model: Path, tmp_path: Path) -> None:
    pushed, sent = push(model, address)
    assert (pushed.kind, sent) == ("text-model", pushed.size)
    assert pull(address, tmp_path / "deep" / "copy") == pushed == pushed_at(address)
    assert contents(tmp_path / "deep" / "copy") == contents(model)
    assert push(model, address) == (pushed, 0), "what is there is not sent again"
    assert push(model, address, anew=True) == (pushed, pushed.size)


def test_an_index_comes_back_with_its_answers(address: str, tmp_path: Path) -> None:
    index = tc.Index.build(DOCS, path=tmp_path / "index")
    pushed, sent = push(tmp_path / "index", address)
    assert (pushed.kind, sent) == ("index", pushed.size)
    pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "index")
    assert [h.doc_id for h in tc.load(tmp_path / "copy").search("tea")] == [h.doc_id for h in index.search("tea")]
    # A second push sends what is new; the copy is then replaced as a whole.
    index.add({"d": "white tea"})
    again, sent_again = push(tmp_path / "index", address)
    assert 0 < sent_again < again.size
    pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(tmp_path / "index")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".tercet")]
    removed = prune(address)
    assert removed == pushed.size + sent_again - again.size > 0
    pull(address, tmp_path / "copy")
    assert len(tc.load(tmp_path / "copy")) == 4


def test_a_new_model_takes_the_place_of_the_old_one(address: str, model: Path, tmp_path: Path) -> None:
    push(model, address)
    pull(address, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").write_text("a card")
    other = saved_model(tmp_path / "other", ["coffee"])
    push(other, address)
    pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(other) | {"README.md": b"a card"}


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"x" + data[1:]])
def test_a_damaged_file_is_not_taken(address: str, model: Path, tmp_path: Path, change: Any) -> None:
    pushed, _ = push(model, address)
    for path, file in pushed.files.items():
        data = (model / path).read_bytes()
        written(address, f"{FILES}/{file.sha256}", change(data))
        with pytest.raises(DamagedBundleError, match=f"which is {path}, is not the file that was pushed"):
            pull(address, tmp_path / "copy")
        written(address, f"{FILES}/{file.sha256}", data)
    assert not (tmp_path / "copy").exists()
    data = pushed.to_bytes()
    written(address, LIST_NAME, change(data))
    with pytest.raises(DamagedBundleError, match=LIST_NAME):
        pull(address, tmp_path / "copy")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name not in ("model", "place")) == []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where an index was pushed."""
    folder = tmp_path_factory.mktemp("place")
    tc.Index.build(DOCS, path=folder / "index")
    push(folder / "index", str(folder / "place"))
    return folder / "place"


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_changed_bit_anywhere_is_noticed(place: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(path for path in place.rglob("*") if path.is_file())))
    whole = path.read_bytes()
    position, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(whole)
    changed[position] ^= 1 << bit
    path.write_bytes(changed)
    try:
        with pytest.raises(BundleError):
            pull(str(place), place.parent / "copy")
    finally:
        path.write_bytes(whole)
    assert not (place.parent / "copy").exists()


def test_half_a_push_is_told_and_gone_on_with(address: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingBundleError, match=f"nothing is pushed at .*shop: it has no {LIST_NAME}"):
        pull(address, tmp_path / "copy")
    pushed, _ = push(model, address)
    written(address, LIST_NAME, None)
    with pytest.raises(MissingBundleError, match="a push did not come to its end"):
        pull(address, tmp_path / "copy")
    assert push(model, address) == (pushed, 0)
    gone = pushed.files[MANIFEST_NAME]
    written(address, f"{FILES}/{gone.sha256}", None)
    with pytest.raises(MissingBundleError, match=f"lacks files that its {LIST_NAME} names"):
        pull(address, tmp_path / "copy")
    assert push(model, address) == (pushed, gone.size)
    pull(address, tmp_path / "copy")


@pytest.mark.parametrize("nth", range(3))
def test_a_store_that_fails_keeps_the_push_before(
    nth: int, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"memory://failing/shop{nth}"
    before, _ = push(model, address)
    other = saved_model(tmp_path / "other", ["coffee", "cocoa"])
    calls = iter(range(10))

    def failing(method: str) -> Any:
        whole = getattr(MemoryFileSystem, method)

        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            if next(calls) == nth:
                raise OSError(28, "No space left")
            return whole(self, *arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for method in ("pipe_file", "put_file"):
            patched.setattr(MemoryFileSystem, method, failing(method))
        with pytest.raises(TransferError, match=f"{address} cannot be written: OSError: .*No space left"):
            push(other, address)
    assert pull(address, tmp_path / "copy") == before
    push(other, address)
    pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(other)


def test_whoever_pulls_while_another_pushes_gets_one_of_both(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "place")
    push(model, address)
    other = saved_model(tmp_path / "other", ["coffee"])
    get = Depot.get

    def get_late(self: Depot, file: PushedFile, path: str) -> Any:
        monkeypatch.setattr(Depot, "get", get)
        push(other, address)
        prune(address)
        return get(self, file, path)

    monkeypatch.setattr(Depot, "get", get_late)
    pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == contents(other)


FILE = PushedFile(1, "0" * 64)


@pytest.mark.parametrize(
    "path", ["../manifest.json", "/etc/passwd", "segments/../../x/manifest.json", "segments/a/b/manifest.json", "x"]
)
def test_a_list_leads_nowhere_else(path: str, tmp_path: Path) -> None:
    body = {"format": "tercet-push", "version": 1, "kind": "index"}
    files = {name: {"size": 1, "sha256": "0" * 64} for name in (MANIFEST_NAME, path)}
    with pytest.raises(DamagedBundleError, match="which is no file that Tercet writes"):
        Pushed.from_bytes(sealed({**body, "files": files}), "list")
    with pytest.raises(InputError, match="no file that Tercet writes"):
        Pushed("index", {MANIFEST_NAME: FILE, path: FILE})


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 2}, VersionError, "written by format 2"),
        ({"kind": "vectors"}, DamagedBundleError, "kind is 'vectors'; expected one of"),
        ({"files": {}}, DamagedBundleError, "files lacks manifest.json"),
        ({"files": {MANIFEST_NAME: {"size": -1, "sha256": "0" * 64}}}, DamagedBundleError, "size"),
        ({"files": {MANIFEST_NAME: {"size": 1, "sha256": "../x"}}}, DamagedBundleError, "64 hexadecimal digits"),
        ({"more": 1}, DamagedBundleError, "more"),
    ],
)
def test_forged_lists_are_refused(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    body = {"format": "tercet-push", "version": 1, "kind": "index", "files": {MANIFEST_NAME: vars(FILE)}}
    assert Pushed.from_bytes(sealed(body), "list").files == {MANIFEST_NAME: FILE}
    with pytest.raises(error, match=message):
        Pushed.from_bytes(sealed({**body, **changes}), "list")


def test_files_that_do_not_fit_together_are_refused(model: Path, tmp_path: Path) -> None:
    """Every file is as it was pushed, and all of them are no model."""
    address = str(tmp_path / "place")
    pushed, _ = push(model, address)
    data = b"{}"
    digest = hashlib.sha256(data).hexdigest()
    written(address, f"{FILES}/{digest}", data)
    files = {**pushed.files, MANIFEST_NAME: PushedFile(len(data), digest)}
    written(address, LIST_NAME, Pushed("text-model", files).to_bytes())
    with pytest.raises(DamagedBundleError):
        pull(address, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_only_what_can_be_carried_is_pushed_and_nothing_else_is_written_over(model: Path, tmp_path: Path) -> None:
    address = str(tmp_path / "place")
    with pytest.raises(MissingBundleError):
        push(tmp_path / "nothing", address)
    damaged = tmp_path / "damaged"
    shutil.copytree(model, damaged)
    [arrays] = damaged.glob("*.safetensors")
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedBundleError):
        push(damaged, address)
    assert not Path(address).exists()
    push(model, address)
    index = tmp_path / "index"
    tc.Index.build(DOCS, path=index)
    before = contents(index)
    with pytest.raises(BundleError, match="kind 'index'; expected 'text-model'"):
        pull(address, index)
    push(index, address)
    (tmp_path / "copy").mkdir()
    pull(address, tmp_path / "copy")
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"'notes\.txt', which is no part of an index; nothing was written"):
        pull(address, tmp_path / "copy")
    assert contents(tmp_path / "copy") == before | {"notes.txt": b"mine"}


@pytest.mark.parametrize(
    ("address", "error", "message"),
    [
        ("nowhere://x/y", InputError, "nowhere://x/y is no address that can be reached: .*nowhere"),
        ("", InputError, "an address is a folder"),
        ("memory://", InputError, "names no folder in the store"),
        ("s3://bucket/x?key=hidden", InputError, "s3://bucket/x is an address with a query"),
    ],
)
def test_wrong_addresses(address: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        Depot(address)
    assert "hidden" not in str(refused.value)


def test_keys_in_an_address_are_not_shown(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot log in to ftp://anna:se%40cret@host as anna with se@cret")

    monkeypatch.setattr(MemoryFileSystem, "ls", away)
    fsspec.register_implementation("keyed", MemoryFileSystem, clobber=True)
    result = run("push", model, "keyed://anna:se%40cret@host/x", "--anew")
    assert result.exit_code == 0, result.output
    result = run("--traceback", "push", model, "keyed://anna:se%40cret@host/x")
    assert result.exit_code == 1
    assert "keyed://host/x cannot be read: RuntimeError: cannot log in" in result.output
    for secret in ("anna", "se%40cret", "se@cret"):
        assert secret not in result.output


def test_a_driver_or_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(InputError, match=r"s3://bucket/x needs a package that is not here: .*s3fs"):
        Depot("s3://bucket/x")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"tercet push and tercet pull needs fsspec: .*push"):
        Depot("memory://x/y")


def test_the_commands(model: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    assert ok("push", model, place).startswith(f"{place}: text model, 2 files, ")
    assert "; 0 bytes sent\n" in ok("push", model, place, "--prune")
    assert ok("pull", place, "-o", tmp_path / "copy").endswith(f", from {place}\n")
    refused = run("pull", place, "-o", tmp_path / "copy")
    assert refused.exit_code == 1
    assert "holds a saved text model already; nothing was written. --replace" in refused.output
    ok("pull", place, "-o", tmp_path / "copy", "--replace")
    assert contents(tmp_path / "copy") == contents(model)


@pytest.mark.slow
def test_a_server_that_speaks_s3(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ``pip install s3fs 'moto[server]'`` was run."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": f"http://{host}:{port}"})
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key-of-anna")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret-of-anna")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("bucket")
        pushed, sent = push(model, "s3://bucket/models/shop")
        assert sent == pushed.size
        assert push(model, "s3://bucket/models/shop")[1] == 0
        pull("s3://bucket/models/shop", tmp_path / "copy")
        assert contents(tmp_path / "copy") == contents(model)
        tc.Index.build(DOCS, path=tmp_path / "index")
        assert ok("push", tmp_path / "index", "s3://bucket/index").startswith("s3://bucket/index: index, ")
        ok("pull", "s3://bucket/index", "-o", tmp_path / "index", "--replace")
        assert len(tc.load(tmp_path / "index")) == len(DOCS)
        assert prune("s3://bucket/index") == 0
        written("s3://bucket/models/shop", f"{FILES}/{pushed.files[MANIFEST_NAME].sha256}", b"{}")
        with pytest.raises(DamagedBundleError, match="is not the file that was pushed"):
            pull("s3://bucket/models/shop", tmp_path / "other")
        refused = run("push", model, "s3://no-such-bucket/shop")
        assert refused.exit_code == 1
        assert "s3://no-such-bucket/shop cannot be written: FileNotFoundError: " in refused.output
        assert "anna" not in refused.output
    finally:
        server.stop()
    away = run("--traceback", "pull", "s3://bucket/models/shop", "-o", tmp_path / "away")
    assert away.exit_code == 1
    assert "s3://bucket/models/shop cannot be read: " in away.output
    assert "the-secret" not in away.output


def test_folders_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / "name").write_text(path.name)
    exchange_folders(one, other)
    assert ((one / "name").read_text(), (other / "name").read_text()) == ("other", "one")
    monkeypatch.setattr("tercet.store.atomic.sys.platform", "elsewhere")  # without the call
    exchange_folders(one, other)
    assert ((one / "name").read_text(), (other / "name").read_text()) == ("one", "other")
    assert sorted(os.listdir(tmp_path)) == ["one", "other"]
