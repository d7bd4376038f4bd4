"""Makes src/thalweg/datasets/mnist_sample.npz from a folder with the full MNIST (its only argument).

Takes images at even distances rather than the first ones: the two halves of the test set come from different writers.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src" / "thalweg" / "datasets"))
import mnist  # (by path: making data must not need the native core)

if __name__ == "__main__":
    full = mnist.load(sys.argv[1])
    sample = mnist.Mnist(full.train_images[::6], full.train_labels[::6], full.test_images[::5], full.test_labels[::5])
    np.savez_compressed(mnist.SAMPLE, **sample._asdict())
    print(f"{mnist.SAMPLE.name}: {len(sample.train_labels)} + {len(sample.test_labels)} images, ", end="")
    print(f"{mnist.SAMPLE.stat().st_size / 1e6:.1f} MB")
