"""What a dataset or a folder from somebody else holds leads nobody to read or write elsewhere."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.report.report_specimen import experiment_text, write_dataset

from virtlab.cli.main import main
from virtlab.errors import DatasetError, ExperimentError
from virtlab.experiment import load_text
from virtlab.folders import Folder, put, read_bounded
from virtlab.report.gather.dataset import gather
from virtlab.report.gather.sources.source_figures import read_figures
from virtlab.report.page.writer import write_report
from virtlab.results import Dataset

TABLE = "study,metric,unit,value,qualifier\na,rtt_mean,us,300,mean\n"
CLAIM = "{{id: near, text: 'probe.rtt.mean within published +- 5 %', published: {{file: {file}, metric: rtt_mean}}}}"


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("received") / "specimen.results"
    write_dataset(path, runs=2, samples=20).close()
    return path


@pytest.fixture
def copied(received: Path, tmp_path: Path) -> Path:
    return shutil.copytree(received, tmp_path / "specimen.results")


def virtlab(*arguments: object) -> subprocess.CompletedProcess[str]:
    call = [str(VIRTLAB), *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)


def link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            door.bind(path.name)
        finally:
            os.chdir(here)


def device(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


VIRTLAB = Path(sys.executable).with_name("virtlab")
PLACES = ("runs/p0000-r00-a0/samples/x.rtt-1.parquet", "report", "manifest.json", "journal", "anything")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("make", "kind"),
    [(link, "a link"), (os.mkfifo, "a named pipe"), (bound_socket, "a socket"), (device, "a device")],
)
def test_a_dataset_with_anything_but_files_and_folders_is_refused_by_name(
    copied: Path, place: str, make: Callable[[Path], None], kind: str
) -> None:
    (copied / place).unlink(missing_ok=True)
    make(copied / place)
    for writing in (False, True):
        with pytest.raises(DatasetError, match=rf"/{place}: is {kind} inside a dataset; move it away"):
            Dataset.open(copied, writing=writing)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "export", "report --with"])
def test_every_command_refuses_such_a_dataset_in_one_line(
    copied: Path, received: Path, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "report/source/published").mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.write_text("my key\n")
    (copied / "report/source/published/.evil.csv.partial").symlink_to(mine)
    first, *more = command.split()
    with pytest.raises(SystemExit) as code:
        main([first, *([str(received), *more] if more else []), str(copied)])
    assert code.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert ".evil.csv.partial: is a link inside a dataset" in told
    assert mine.read_text() == "my key\n"


def test_a_file_is_not_written_through_a_link_of_its_name(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("my key\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/report.html").symlink_to(mine)
    with Folder.open(tmp_path, "folder") as folder:
        folder.write("report.html", b"page")
    assert mine.read_text() == "my key\n"
    assert (tmp_path / "folder/report.html").read_text() == "page"
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["report.html"]


@pytest.mark.slow
def test_a_report_goes_into_no_folder_behind_a_link(received: Path, tmp_path: Path) -> None:
    mine, elsewhere = tmp_path / "mine", tmp_path / "elsewhere"
    mine.mkdir()
    elsewhere.mkdir()
    (elsewhere / "figures").symlink_to(mine)
    with pytest.raises(DatasetError, match="elsewhere/figures: is a link, not a folder"):
        write_report(Dataset.open(received), elsewhere, formats=("svg",))
    assert not list(mine.iterdir())


@pytest.mark.slow
def test_the_users_own_pictures_in_a_folder_stay(received: Path, tmp_path: Path) -> None:
    figures = tmp_path / "out/figures"
    figures.mkdir(parents=True)
    (figures / "holiday.png").write_bytes(b"sun")
    dataset = Dataset.open(received)
    write_report(dataset, tmp_path / "out", formats=("svg",))
    drawn = set(figures.glob("*.svg"))
    (tmp_path / "precious.png").write_bytes(b"sun")
    listed = figures / ".pictures"
    listed.write_text(listed.read_text() + "../../precious.png\n/etc/x.png\n")
    write_report(dataset, tmp_path / "out", formats=())
    assert drawn
    assert [path.name for path in figures.iterdir() if not path.name.startswith(".")] == ["holiday.png"]
    assert (tmp_path / "precious.png").read_bytes() == b"sun"


@pytest.mark.process
def test_two_reports_of_one_dataset_at_once_both_work(copied: Path) -> None:
    call = [str(VIRTLAB), "report", str(copied), "--figures", "svg"]
    both = [
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    ended = [(one.communicate(timeout=120), one.returncode) for one in both]
    assert [code for _, code in ended] == [0, 0], ended
    assert (copied / "report/report.html").read_text().rstrip().endswith("</html>")
    left = [path for path in copied.rglob(".*") if path.name not in {".lock", ".pictures"}]
    assert left == []


@pytest.mark.parametrize(
    "file", ["/etc/hostname", "../secret.csv", "secret.txt", ".hidden.csv", '"a\\nb.csv"']
)
def test_a_claim_names_a_plain_table_and_no_other_file(file: str) -> None:
    text = experiment_text().replace("  - id: loss", f"  - {CLAIM.format(file=file)}\n  - id: loss")
    with pytest.raises(ExperimentError, match="'file' names no file in the folder of published tables"):
        load_text(text)


@pytest.mark.parametrize("file", ["/etc/hostname", "../secret.csv", "secret.txt"])
def test_figures_yaml_names_a_plain_table_and_no_other_file(file: str, tmp_path: Path) -> None:
    overlay = f"{{file: {file}, metric: rtt_mean, path: probe.rtt.mean}}"
    (tmp_path / "figures.yaml").write_text(f"figures: []\npublished: [{overlay}]\n")
    with pytest.raises(
        ExperimentError, match=r"published.file: names no file in the folder of published tables"
    ):
        read_figures(tmp_path / "figures.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "secret", ["user,secret\nme,hunter2\n", "\x00" * 40, TABLE + "a,b,c,1,\n" * (1 << 19)]
)
def test_only_a_published_table_is_kept_with_a_report(copied: Path, secret: str) -> None:
    tables = copied.parent / "published"
    tables.mkdir()
    (tables / "good.csv").write_text(TABLE)
    (tables / "other.csv").write_text(secret)
    names = [
        f"{{file: {name}, metric: rtt_mean, path: probe.rtt.mean}}" for name in ("good.csv", "other.csv")
    ]
    (copied.parent / "figures.yaml").write_text(f"figures: []\npublished: [{', '.join(names)}]\n")
    data = gather(Dataset.open(copied), curves=False)
    assert [source.name for source in data.source.files] == ["figures.yaml", "good.csv"]


def test_a_pipe_in_the_place_of_a_table_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(OSError, match="it is a named pipe, not a file"):
        read_bounded(tmp_path / "a.csv", 10)


@pytest.mark.process
def test_an_export_into_a_folder_replaces_a_link_and_does_not_follow_it(
    received: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("my key\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/rtt.csv").symlink_to(mine)
    ended = virtlab("export", received, "--what", "samples", "--output", tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    assert mine.read_text() == "my key\n"
    assert len((tmp_path / "out/rtt.csv").read_text().splitlines()) == 41


@pytest.mark.slow
def test_a_report_sweeps_what_dead_ones_left_and_nothing_else(received: Path, tmp_path: Path) -> None:
    names = {
        "dead": f".report.html.partial-{'0' * 16}", "writing": f".report.html.partial-{'1' * 16}",
        "another": ".notes.partial-1",
    }  # fmt: skip
    for folder in (tmp_path, tmp_path / "figures", tmp_path / "source"):
        folder.mkdir(exist_ok=True)
        for what, name in names.items():
            (folder / name).touch()
            if what != "writing":
                os.utime(folder / name, (0, 0))
    write_report(Dataset.open(received), tmp_path, formats=())
    for folder in (tmp_path, tmp_path / "figures", tmp_path / "source"):
        left = {what for what, name in names.items() if (folder / name).exists()}
        assert left == {"writing", "another"}


@pytest.mark.process
def test_what_the_user_names_for_a_result_is_written_there_whatever_link_was_planted(
    received: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    commands: tuple[tuple[object, ...], ...] = (
        ("compare", received, "--save-baseline"),
        ("trend", received, "--output"),
        ("report", received, "--figures", "none", "--junit", tmp_path / "a.json", "--markdown"),
    )
    for command in commands:
        names = {"b.json", "a.json"} if tmp_path / "a.json" in command else {"b.json"}
        for name in names:
            for planted in (name, f".{name}.new"):
                (tmp_path / planted).unlink(missing_ok=True)
                (tmp_path / planted).symlink_to(precious)
        done = virtlab(*command, tmp_path / "b.json")
        assert not any(name in done.stderr for name in names), done.stderr
        assert precious.read_text() == "mine\n"
        for name in names:
            assert (tmp_path / name).read_text().strip()
            assert not (tmp_path / name).is_symlink()


@pytest.mark.process
def test_values_and_files_replace_a_link_that_was_planted_under_their_name(
    received: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    for name in ("v.csv", "v.parquet", "e.yaml"):
        (tmp_path / name).symlink_to(precious)
    for name in ("v.csv", "v.parquet"):
        done = virtlab("export", received, "--output", tmp_path / name)
        assert done.returncode == 0, done.stderr
    load_text(experiment_text()).write(tmp_path / "e.yaml")
    assert precious.read_text() == "mine\n"
    assert not any((tmp_path / name).is_symlink() for name in ("v.csv", "v.parquet", "e.yaml"))
    assert (tmp_path / "e.yaml").read_text() == experiment_text()


def test_a_picture_replaces_a_link_that_was_planted_under_its_name(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (tmp_path / "p.html").symlink_to(precious)
    put(tmp_path / "p.html", b"new\n")
    assert precious.read_text() == "mine\n"
    assert (tmp_path / "p.html").read_text() == "new\n"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    put(tmp_path / "pipe", b"through\n")  # a pipe that was named is written to
    assert os.read(reader, 100) == b"through\n"
    os.close(reader)


@pytest.mark.process
def test_a_descriptor_that_is_named_is_written_to_and_never_replaced(received: Path, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        place = ["--directory", str(tmp_path / "r"), "--figures", "none"]
        named = ["--junit", "/dev/stdout", "--markdown", "/dev/fd/1"]
        call = [str(VIRTLAB), "report", str(received), *named, *place]
        done = subprocess.run(call, stdout=out, stderr=subprocess.PIPE, check=False)
        assert done.returncode in {0, 1}, done.stderr
    assert Path("/dev/stdout").is_symlink()
    assert (tmp_path / "out").stat().st_size > 0
    with (tmp_path / "own").open("wb") as own:
        put(Path(f"/proc/self/fd/{own.fileno()}"), b"through\n")
    assert (tmp_path / "own").read_bytes() == b"through\n"
