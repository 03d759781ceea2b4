"""What the files and literals around a script say, and how little a broken one matters."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from ampcheck.check import Options, check_paths
from ampcheck.configurations import Answer, Configurations, configurations_of
from ampcheck.source import decode


def read(folder: Path, code: str, **files: str) -> Configurations:
    """The configurations of a script beside these files; ``ds__json`` stands for the name ``ds.json``."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(dedent(text))
    script = folder / "train.py"
    script.write_text(dedent(code))
    return configurations_of(decode(str(script), script.read_bytes()))


TRAINER = 'args = TrainingArguments("out", fp16=True, gradient_accumulation_steps=4, deepspeed="ds.json")'


def test_arguments_and_the_file_they_name_agree(tmp_path: Path) -> None:
    engine = {"fp16": {"enabled": True}, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3}}
    found = read(tmp_path, TRAINER, ds__json=json.dumps(engine))
    assert found.gradient_accumulation_steps == Answer(4, "TrainingArguments")
    assert found.precision == Answer("float16", "TrainingArguments")
    assert found.zero_stage == Answer(3, "ds.json")
    assert not found.problems


def test_auto_says_nothing(tmp_path: Path) -> None:
    engine = {"fp16": {"enabled": "auto"}, "gradient_accumulation_steps": "auto", "gradient_clipping": "auto"}
    found = read(tmp_path, TRAINER, ds__json=json.dumps(engine))
    assert found.gradient_accumulation_steps == Answer(4, "TrainingArguments")
    assert found.gradient_clipping is None


def test_disagreement_is_not_sure(tmp_path: Path) -> None:
    found = read(tmp_path, TRAINER, ds__json='{"gradient_accumulation_steps": 8, "bf16": {"enabled": true}}')
    assert found.gradient_accumulation_steps == Answer(4, "TrainingArguments", sure=False)
    assert found.precision == Answer("float16", "TrainingArguments", sure=False)


def test_a_dict_in_the_code_is_read_as_far_as_it_is_literal(tmp_path: Path) -> None:
    code = """
        import deepspeed
        K = 8
        config = {
            "train_batch_size": args.batch_size,
            "gradient_accumulation_steps": K,
            "gradient_clipping": 0.5,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": args.stage},
        }
        engine, *_ = deepspeed.initialize(model=model, config=config)
    """
    found = read(tmp_path, code)
    assert found.gradient_accumulation_steps == Answer(8, "the DeepSpeed configuration")
    assert found.gradient_clipping == Answer(0.5, "the DeepSpeed configuration")
    assert found.precision == Answer("bfloat16", "the DeepSpeed configuration")
    assert found.zero_stage is None


def test_a_dict_that_is_changed_later_is_not_believed(tmp_path: Path) -> None:
    code = """
        import deepspeed
        config = {"fp16": {"enabled": True}}
        config["fp16"]["enabled"] = args.fp16
        engine, *_ = deepspeed.initialize(model=model, config=config)
    """
    assert read(tmp_path, code).precision is None


ACCELERATE = """
    compute_environment: LOCAL_MACHINE
    distributed_type: DEEPSPEED
    mixed_precision: bf16
    num_processes: 8
    deepspeed_config:
      gradient_accumulation_steps: 2
      gradient_clipping: 1.0
      zero_stage: 2
"""


def test_an_accelerate_file_beside_the_code_is_no_sure_answer(tmp_path: Path) -> None:
    found = read(tmp_path, "accelerator = Accelerator()", default_config__yaml=ACCELERATE)
    owner = "default_config.yaml"
    assert found.precision == Answer("bfloat16", owner, sure=False)
    assert found.gradient_accumulation_steps == Answer(2, owner, sure=False)
    assert found.zero_stage == Answer(2, owner, sure=False)
    assert found.distributed_type == Answer("DEEPSPEED", owner, sure=False)


def test_the_code_speaks_before_a_file_beside_it(tmp_path: Path) -> None:
    code = 'accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=4)'
    found = read(tmp_path, code, default_config__yaml=ACCELERATE)
    assert found.precision == Answer("float16", "Accelerator")
    assert found.gradient_accumulation_steps == Answer(4, "Accelerator")


def test_yaml_reads_a_bare_no_as_false(tmp_path: Path) -> None:
    text = "distributed_type: NO\nmixed_precision: no\nnum_processes: 1\n"
    found = read(tmp_path, "accelerator = Accelerator()", a__yaml=text)
    assert found.precision == Answer("float32", "a.yaml", sure=False)
    assert found.distributed_type == Answer("NO", "a.yaml", sure=False)


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (b'{\n  "fp16": {"enabled": true},\n}', "not JSON: line 3", 3),
        (b"[1, 2]", "holds no mapping", 1),
        (b"\xff\xfe\x00", "cannot be decoded", 1),
        (b"[" * 100_000, "nested too deeply", 1),
        (b"", "not JSON", 1),
    ],
)
def test_a_broken_file_that_the_code_names_is_reported(
    tmp_path: Path, content: bytes, message: str, line: int
) -> None:
    (tmp_path / "ds.json").write_bytes(content)
    found = read(tmp_path, TRAINER)
    (problem,) = found.problems
    assert message in problem.message
    assert problem.line == line
    report = check_paths([str(tmp_path / "train.py")], options=Options())
    (finding,) = report.findings
    assert (finding.code, finding.site.line) == ("AMP900", line)
    assert finding.site.path.endswith("ds.json")
    assert report.files == 1


def test_a_broken_file_beside_the_code_is_nobodys_business(tmp_path: Path) -> None:
    found = read(tmp_path, "accelerator = Accelerator()", a__yaml="distributed_type: [", b__yml="- 1")
    assert found == Configurations() or not found.problems


def test_a_file_that_is_not_there_is_left_to_the_launcher(tmp_path: Path) -> None:
    assert not read(tmp_path, TRAINER).problems


def test_a_contradiction_with_a_file_beside_the_code_is_possible(tmp_path: Path) -> None:
    code = 'from accelerate import Accelerator\naccelerator = Accelerator(mixed_precision="fp16")\nloss.backward()\n'
    read(tmp_path, code, default_config__yaml=ACCELERATE)
    script = [str(tmp_path / "train.py")]
    assert not check_paths(script, options=Options()).findings
    (finding,) = check_paths(script, options=Options(possible=True, select=frozenset({"AMP606"}))).findings
    assert (finding.code, finding.site.line, finding.verdict) == ("AMP606", 2, "possible")


def test_a_local_class_of_that_name_is_not_the_librarys(tmp_path: Path) -> None:
    code = "class TrainingArguments:\n    pass\n\nargs = TrainingArguments(fp16=True, bf16=True)\n"
    assert not read(tmp_path, code).found


def test_a_parameter_hides_a_constant_of_its_name(tmp_path: Path) -> None:
    code = """
        K = 4
        def build(K):
            return TrainingArguments("out", gradient_accumulation_steps=K)
    """
    assert read(tmp_path, code).gradient_accumulation_steps is None
