"""Starting a command: what is left out is out of nobody's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICK = Path(__file__).parents[2] / "experiments" / "switched-network" / "quick.yaml"


def ran(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_light_start_still_validates() -> None:
    code = (
        "from virtlab.cli.startup import lighten; lighten()\n"
        "from pydantic import TypeAdapter; print(TypeAdapter(int).validate_python('3'))"
    )
    assert ran(code) == "3"


def test_whoever_asks_for_more_of_pydantics_loader_gets_the_real_one() -> None:
    code = (
        "from virtlab.cli.startup import lighten; lighten()\n"
        "from pydantic.plugin._loader import get_plugins, PYDANTIC_ENTRY_POINT_GROUP as group\n"
        "print(list(get_plugins()), group)"
    )
    assert ran(code) == "[] pydantic"


def test_no_room_loads_a_heavy_library_before_it_is_used() -> None:
    code = (
        "import pkgutil, sys, virtlab\n"
        "for each in pkgutil.walk_packages(virtlab.__path__, 'virtlab.'):\n"
        "    each.name.endswith('.dask') or __import__(each.name)\n"
        "print(sorted({'duckdb', 'jinja2', 'numpy', 'scipy', 'vl_convert'} & set(sys.modules)))"
    )
    assert ran(code) == "[]"


def test_a_library_that_is_loaded_late_is_the_library() -> None:
    code = (
        "from virtlab.lazy import np, special\n"
        "import numpy, scipy.special\n"
        "print(np.mean is numpy.mean, np.random is numpy.random, special.ndtri is scipy.special.ndtri)"
    )
    assert ran(code) == "True True True"


def test_a_library_that_is_loaded_late_cleans_up_what_is_its_own() -> None:
    """Versions 1.4.5 to 1.5.6 of DuckDB end the process by SIGSEGV where a private name of theirs outlives them."""
    code = (
        "from virtlab.lazy import duckdb\n"
        "db = duckdb.connect(); db.execute('select 1').fetchall()\n"
        "print([name for name in vars(duckdb) if name[:1] == '_' and name[:2] != '__'])"
    )
    assert ran(code) == "[]"


def test_check_loads_nothing_heavy() -> None:
    code = (
        "import sys; from virtlab.cli.startup import start\n"
        f"sys.argv[1:] = ['check', {str(QUICK)!r}]\n"
        "try: start()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'duckdb', 'rich', 'virtlab.plan.model', 'virtlab.results', 'jinja2',"
        " 'importlib.metadata'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_virtlab_for_programs_loads_nothing_heavy() -> None:
    code = (
        "import sys; import virtlab as vl\n"
        "[getattr(vl, name) for name in dir(vl)]\n"
        "print(sorted({'duckdb', 'numpy', 'scipy', 'pydantic', 'rich', 'jinja2', 'vl_convert', 'typer'} & set(sys.modules)))"
    )
    assert ran(code) == "[]"


def test_importing_virtlab_takes_less_than_a_third_of_a_second() -> None:
    """Of processor time, Python's own start included; the best of three, since others may disturb one."""
    taken = [float(ran("import virtlab, time; print(time.process_time())")) for _ in range(3)]
    assert min(taken) <= 0.3, taken


def test_check_imports_the_declarations_of_what_its_file_names_alone() -> None:
    code = (
        f"import sys; sys.argv = ['virtlab', 'check', {str(QUICK)!r}]\n"
        "from virtlab.cli.startup import start\n"
        "try: start()\n"
        "except SystemExit: pass\n"
        "begin = 'virtlab.catalogue.'\n"
        "found = {name.removeprefix(begin) for name in sys.modules if name.startswith(begin)}\n"
        "print(sorted(name for name in found if name.startswith(('workloads.', 'qdiscs.', 'services.'))))"
    )
    # How a service is asked is read from the parameters of one workload.
    asking = ["workloads.request_response"]
    of_the_file = ["workloads.burst_load", "workloads.rtt", "workloads.udp_stream"]
    assert ran(code).splitlines()[-1] == str(sorted(["qdiscs.fifo", *asking, *of_the_file]))
