"""`tensorflow.python.tools.inspect_checkpoint`: prints the tensors of a checkpoint."""

from __future__ import annotations

from thalweg.contrib.public_names import tf


def print_tensors_in_checkpoint_file(
    file_name: str,
    tensor_name: str | None,
    all_tensors: bool,
    all_tensor_names: bool = False,
    count_exclude_pattern: str = "",
) -> None:
    """Prints one tensor, all of them, or the names with shapes and types.

    Args:
        file_name: The checkpoint.
        tensor_name: The tensor to print.
        all_tensors: Whether to print all tensors with their values.
        all_tensor_names: Whether to print the names of all tensors.
        count_exclude_pattern: Parameters of tensors whose name matches are not counted.
    """
    import re

    reader = tf.train.NewCheckpointReader(file_name)
    shapes = reader.get_variable_to_shape_map()
    if all_tensors or all_tensor_names:
        for name in sorted(shapes):
            print("tensor_name: ", name)
            if all_tensors:
                print(reader.get_tensor(name))
    elif not tensor_name:
        print(reader.debug_string().decode("utf-8"))
    else:
        if not reader.has_tensor(tensor_name):
            print(f"Tensor {tensor_name} not found in checkpoint")
            return
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
    counted = [name for name in shapes if not count_exclude_pattern or not re.search(count_exclude_pattern, name)]
    total = 0
    for name in counted:
        size = 1
        for dim in shapes[name]:
            size *= dim
        total += size
    print(f"# Total number of params: {total}")
