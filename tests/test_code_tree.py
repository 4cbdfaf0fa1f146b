"""Which code ran: the same digest from the files and from git, and what makes it another one."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from nbkit.runs import code_tree
from nbkit.runs.code_tree import as_text, from_text, is_clean, tree_of_commit, tree_of_files

FOLDERS = ("nbkit", "studies")


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    command = ("git", "-C", str(root), *identity, *words)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in {
        "nbkit/a.py": "A = 1\n",
        "nbkit/assets/arm.xml": "<arm/>\n",
        "nbkit/sub/ünï.py": "B = 2\n",
        "studies/s.py": "C = 3\n",
        "studies/results/s.json": "{}\n",
        "book/page.md": "prose\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_files_and_commit_agree_on_a_clean_checkout(checkout: Path) -> None:
    files = tree_of_files(checkout, FOLDERS)
    assert files == tree_of_commit(checkout, "HEAD", FOLDERS)
    assert set(files) == set(FOLDERS) and len(set(files.values())) == 2


def test_the_digest_is_what_it_says(checkout: Path) -> None:
    """By hand: SHA-256 of the sorted lines "path, NUL, git's name of the content"."""
    blob = hashlib.sha1(b"blob 6\0C = 3\n").hexdigest()
    assert blob == git(checkout, "hash-object", "studies/s.py")
    wanted = hashlib.sha256(f"studies/s.py\0{blob}\n".encode()).hexdigest()
    assert tree_of_files(checkout, ("studies",)) == {"studies": wanted}


def test_without_git_the_files_give_the_same(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree_of_files(checkout, FOLDERS)
    monkeypatch.setattr(code_tree, "git", lambda *arguments, **options: None)
    assert tree_of_files(checkout, FOLDERS) == before
    assert code_tree.origin(checkout) == {}


@pytest.mark.parametrize(
    ("name", "text", "moved"),
    [
        ("nbkit/a.py", "A = 2\n", {"nbkit"}),
        ("nbkit/assets/arm.xml", "<leg/>\n", {"nbkit"}),  # the package's data is code too
        ("nbkit/new.py", "", {"nbkit"}),  # it could be imported, tracked or not
        ("studies/s.py", "C = 4\n", {"studies"}),
        ("studies/results/s.json", "[]\n", set()),
        ("studies/notes.txt", "x", set()),
        ("nbkit/__pycache__/a.cpython-311.pyc", "x", set()),
        ("nbkit/.hidden/a.py", "x", set()),
        ("book/page.md", "other prose\n", set()),
    ],
)
def test_what_makes_it_other_code(checkout: Path, name: str, text: str, moved: set[str]) -> None:
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    files, committed = tree_of_files(checkout, FOLDERS), tree_of_commit(checkout, "HEAD", FOLDERS)
    assert {folder for folder in FOLDERS if files[folder] != committed[folder]} == moved
    assert is_clean(files, committed) is not bool(moved)
    git(checkout, "add", "-f", name)
    git(checkout, "commit", "-qm", "second")
    assert is_clean(files, tree_of_commit(checkout, "HEAD", FOLDERS))
    assert is_clean(files, tree_of_commit(checkout, "HEAD~1", FOLDERS)) is not bool(moved)


def test_a_file_that_moved_is_other_code(checkout: Path) -> None:
    before = tree_of_files(checkout, FOLDERS)
    (checkout / "nbkit/a.py").rename(checkout / "nbkit/b.py")
    assert tree_of_files(checkout, FOLDERS) != before


def test_a_copy_of_this_repository_s_commit_agrees_with_it(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[1]
    committed = tree_of_commit(root, "HEAD")
    if committed is None:
        pytest.skip("the tests run outside a checkout")
    archive = ("git", "-C", str(root), "archive", "HEAD", *code_tree.FOLDERS)
    packed = subprocess.run(archive, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        files.extractall(tmp_path, filter="data")
    assert tree_of_files(tmp_path) == committed
    (tmp_path / "nbkit" / "losses.py").write_text("")
    assert tree_of_files(tmp_path)["nbkit"] != committed["nbkit"]


def test_an_unknown_commit_and_an_unknown_folder(checkout: Path) -> None:
    assert tree_of_commit(checkout, "0" * 40, FOLDERS) is None
    assert is_clean({"nbkit": "x"}, None) is None
    assert is_clean({"nbkit": "x"}, {"studies": "x"}) is None
    with pytest.raises(ValueError, match="'book' holds no code"):
        code_tree.folders_of(["nbkit", "book/page.md"])
    assert code_tree.folders_of(["nbkit", "studies/*.py", "studies"]) == FOLDERS
    assert code_tree.folders_of(()) == code_tree.FOLDERS


def test_a_tree_travels_in_a_variable(checkout: Path) -> None:
    found = code_tree.origin(checkout)
    assert found[code_tree.COMMIT_VARIABLE] == git(checkout, "rev-parse", "HEAD")
    tree = from_text(found[code_tree.TREE_VARIABLE])
    assert tree == tree_of_commit(checkout, "HEAD") and from_text(as_text(tree)) == tree
    for wrong in ("", "nbkit", "nbkit=12", "book=" + "0" * 64):
        with pytest.raises(ValueError, match="is no list of folder=digest"):
            from_text(wrong)
