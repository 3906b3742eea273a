"""The kinds of findings, a sentence each, for rules, legends and documentation.

Owns the words. Which check finds what, and how grave it is, belongs to the checks.
"""

from __future__ import annotations

#: Machine-readable kind → what it means.
KINDS: dict[str, str] = {
    "oob_load": "A load reads outside the storage its pointer derives from.",
    "oob_store": "A store writes outside the storage its pointer derives from.",
    "oob_atomic": "An atomic operation leaves the storage its pointer derives from.",
    "view_oob": "An access stays in the storage but leaves the elements of the view passed.",
    "misaligned": "An address is not a multiple of the size of the element accessed.",
    "use_after_free": "An access reaches a storage that was freed before the launch.",
    "unused_load": "A load is left out by Triton, for nobody uses its value, and not judged.",
    "overlapping_store": "Programs, or lanes of one store, write the same element unordered.",
    "race": "A program reads or updates an element while another writes it, unordered.",
    "intra_program_race": "Lanes of a program reload what others stored, without a barrier.",
    "uninit_read": "A value that was never written decides an address, a branch or an output.",
    "int_overflow": "An integer wraps on its way to an address.",
    "bad_hint": "The data contradict a promise made to the compiler.",
    "deadlock": "Programs wait for each other, or for one that need not be running.",
    "divergent_barrier": "Some threads of a program miss a barrier that others wait at.",
    "nan": "An operation makes the first NaN of a launch.",
    "inf": "An operation makes the first infinity of a launch.",
    "div_by_zero": "A division has the divisor 0.",
    "config_failed": "A configuration of an autotuned kernel does not compile, or raises.",
    "unsupported": "A check could not judge this.",
    "unused_suppression": "A suppression matches no finding of the run.",
    "bad_suppression": "A suppression without kinds or reason is not honoured.",
}
