"""Output of instrumented kernels among the output of the program.

Assertions have the format in which CUDA prints them; the reports of AMD's address sanitizer follow
its documentation. Neither was recorded from runs of these modes.
"""

from __future__ import annotations

from ttools.sanitizer.gpu.device_output import read_device_output
from ttools.sanitizer.gpu.output import Frame

ASSERTIONS = """\
step 1
/home/me/a b/kernel.py:12: unknown: block: [3,0,1], thread: [37,0,0] Assertion `Buffer being \
accessed has outstanding writes.` failed.
/home/me/a b/kernel.py:12: unknown: block: [3,0,1], thread: [38,0,0] Assertion `Buffer being \
accessed has outstanding writes.` failed.
Traceback (most recent call last):
  File "kernel.py", line 30, in <module>
RuntimeError: CUDA error: device-side assert triggered
"""
ADDRESS = """\
=================================================================
==4242==ERROR: AddressSanitizer: heap-buffer-overflow on amdgpu device 0 at pc 0x7fa9f5c92dcc
WRITE of size 4 in workgroup id (10,0,0)
  #0 0x7fa9f5c92dcc in scale_kernel at /home/me/script.py:11:5

Thread ids and accessed addresses:
36 : 0x7fa5f02b3190 37 : 0x7fa5f02b3194

0x7fa5f02b3190 is located 0 bytes after 400-byte region [0x7fa5f02b3000,0x7fa5f02b3190)
"""


def test_assertions() -> None:
    first, second = read_device_output(ASSERTIONS).records
    assert first.text == "Buffer being accessed has outstanding writes"
    assert first.frame == Frame("unknown", "/home/me/a b/kernel.py", 12)
    assert (first.block, first.thread) == ((3, 0, 1), (37, 0, 0))
    assert second.thread == (38, 0, 0)
    assert first.position < second.position


def test_address_errors() -> None:
    (record,) = read_device_output(ADDRESS).records
    assert (record.access, record.size, record.block) == ("write", 4, (10, 0, 0))
    assert record.frame == Frame("scale_kernel", "/home/me/script.py", 11)
    assert record.problem == "heap-buffer-overflow"
    assert record.address == 0x7FA5F02B3190


def test_an_address_error_that_is_cut_off() -> None:
    (record,) = read_device_output(ADDRESS.splitlines()[1] + "\n").records
    assert (record.text, record.access, record.frame) == ("heap-buffer-overflow", "", None)


def test_output_of_the_program() -> None:
    text = "a.py:3: unknown: Assertion `x` failed.\nAddressSanitizer: on device\n"
    assert read_device_output(text).records == []
    assert read_device_output("").records == []
