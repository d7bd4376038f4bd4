"""The probe for usable instruction sets: real children that die, the cache, and the answer when nothing works."""

import os
import sys
from pathlib import Path

import pytest

from thalweg.platform import cpu_probe
from thalweg.platform.cpu_info import REQUIRED_FLAGS, CpuInfo, read_cpu_info, require_instructions

AVX2 = frozenset({"avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}
AMX = AVX512 | {"avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"}

DIES_ON_AMX = """
import os, signal, sys
if "AMX" in os.environ["ONEDNN_MAX_CPU_ISA"]:
    os.kill(os.getpid(), signal.SIGILL)
"""


def child(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def never(isa: str) -> bool:
    raise AssertionError(f"started a child for {isa}")


def nowhere(cpu: CpuInfo) -> None:
    return None


def test_a_machine_without_avx512_starts_no_child_and_reads_no_file():
    def no_file(cpu: CpuInfo) -> Path:
        raise AssertionError("looked for the cache")

    assert cpu_probe.decide(CpuInfo("x", AVX2), no_file, never) == "AVX2"
    assert cpu_probe.decide(CpuInfo("x", AVX2 | {"avx_vnni"}), no_file, never) == "AVX2_VNNI"
    assert cpu_probe.decide(CpuInfo("", frozenset()), no_file, never) == "SSE41"


def test_the_best_announced_instruction_set_that_survives_is_chosen():
    def probe(isa: str) -> bool:
        return cpu_probe.run_child(isa, child(DIES_ON_AMX))

    assert cpu_probe.decide(CpuInfo("x", AMX), nowhere, probe) == "AVX512_CORE_FP16"
    assert cpu_probe.decide(CpuInfo("x", AVX512), nowhere, probe) == "AVX512_CORE_VNNI"


def test_a_child_that_is_killed_by_an_illegal_instruction_means_no():
    assert not cpu_probe.run_child("AVX512_CORE_AMX", child(DIES_ON_AMX))
    assert cpu_probe.run_child("AVX512_CORE", child(DIES_ON_AMX))


def test_a_child_that_computes_nonsense_means_no():
    assert not cpu_probe.run_child("AVX512_CORE", child(f"raise SystemExit({cpu_probe.WRONG_RESULT})"))


@pytest.mark.parametrize(
    "command", [["/does/not/exist"], child("raise ImportError"), child("import time; time.sleep(60)")]
)
def test_a_child_that_cannot_try_is_inconclusive(command, monkeypatch):
    monkeypatch.setattr(cpu_probe, "CHILD_SECONDS", 2)
    with pytest.raises(cpu_probe.Inconclusive):
        cpu_probe.run_child("AVX512_CORE", command)


def test_without_a_conclusion_the_safe_answer_is_given_and_not_kept(tmp_path):
    def probe(isa: str) -> bool:
        raise cpu_probe.Inconclusive("no child")

    path = tmp_path / "answer"
    assert cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: path, probe) == "AVX2"
    assert not path.exists()


def test_when_everything_dies_the_safe_answer_is_given_and_kept(tmp_path):
    path = tmp_path / "deep" / "answer"
    assert cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: path, lambda isa: False) == "AVX2"
    assert cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: path, never) == "AVX2"
    assert os.listdir(path.parent) == ["answer"]


def test_a_kept_answer_is_used_and_a_damaged_one_is_not(tmp_path):
    path = tmp_path / "answer"
    path.write_text("AVX512_CORE\n")
    assert cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: path, never) == "AVX512_CORE"
    for damaged in (b"", b"\xff\xfe", b"AVX1024", b"AVX512_CORE_AMX_FP16"):
        path.write_bytes(damaged)
        answer = cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: path, lambda isa: isa == "AVX512_CORE_AMX")
        assert answer == "AVX512_CORE_AMX"
        assert path.read_text() == "AVX512_CORE_AMX\n"


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert cpu_probe.decide(CpuInfo("x", AMX), lambda cpu: blocked / "answer", lambda isa: True) == "AVX512_CORE_AMX"


def test_the_cache_key_depends_on_the_processor(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = cpu_probe._cache_file(CpuInfo("one", AVX512))
    assert one is not None and one.is_relative_to(tmp_path)
    assert one == cpu_probe._cache_file(CpuInfo("one", AVX512))
    assert one != cpu_probe._cache_file(CpuInfo("two", AVX512))
    assert one != cpu_probe._cache_file(CpuInfo("one", AMX))


def test_the_user_s_choice_wins(monkeypatch):
    cpu_probe.max_isa.cache_clear()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(cpu_probe, "run_child", never)
    assert cpu_probe.max_isa() == "AVX2"
    cpu_probe.max_isa.cache_clear()


def test_the_real_child_finds_what_the_real_answer_says(monkeypatch):
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    cpu_probe.max_isa.cache_clear()
    assert cpu_probe.run_child(cpu_probe.max_isa())


def test_cpu_info_of_this_machine_is_read():
    cpu = read_cpu_info()
    assert cpu.flags >= REQUIRED_FLAGS and cpu.model
    assert read_cpu_info("/does/not/exist") == CpuInfo("", frozenset())


def test_an_old_processor_gets_an_import_error_with_a_remedy(tmp_path):
    old = CpuInfo("Old Processor", frozenset({"sse2", "sse4_2"}))
    with pytest.raises(ImportError, match=r"Old Processor.*lacks.*avx2.*THALWEG_MARCH"):
        require_instructions(old, tmp_path)
    (tmp_path / "_core.march").write_text("x86-64-v2\n")
    require_instructions(old, tmp_path)
    require_instructions(CpuInfo("", frozenset()), tmp_path)
