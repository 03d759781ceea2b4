"""What the configuration around a file says: DeepSpeed JSON, Accelerate YAML, ``TrainingArguments(...)``.

    found = configurations_of(source)
    found.gradient_accumulation_steps      Answer(4, sure=True, owner="ds_config.json"), or None where nothing is said
    found.precision                        Answer("float16" | "bfloat16" | "float32", ...)
    found.zero_stage, found.gradient_clipping, found.distributed_type
    found.problems                         files that the code names and that cannot be read

A dict or a call in the code itself and a file that it names are sure; a file that merely lies beside it may belong to
another script.  "auto" is no answer.  Nothing here raises for what stands in a file.
"""

from ampcheck.configurations.answers import Answer, Configuration, Configurations, Problem
from ampcheck.configurations.precisions import precision_traces
from ampcheck.configurations.reading import configurations_of

__all__ = ["Answer", "Configuration", "Configurations", "Problem", "configurations_of", "precision_traces"]
