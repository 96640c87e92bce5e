"""Mutation fuzz: wrong input of every kind is accepted or refused in one clean line, within 2 s and 1 GiB.

Each kind of input is one file of this folder with these names:

- `COUNT`: how many cases a full round has,
- `cases(seed, count)`: an iterator of that many cases, the same for the same seed; a case can be pickled,
- `run_case(case)`: gives the case to the program. It returns when the input was accepted, and raises a `VirtlabError`
  when it was refused; whatever else comes out of it is a finding;

and, where the first case would bear what is loaded or made once, `prepare()`.

`python -m tools.fuzz` runs all of them (see `__main__.py`), `workers.py` bounds time and memory and writes each finding
to a file, and `damage.py` cuts, doubles and replaces pieces of a right file.
"""
