// Tensors as text, for messages and for tf.print.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace thalweg {

// A number with as few digits as bring the same value back (of two lengths: 6 or 9 digits, 15 or 17).
std::string number_text(double value);
std::string number_text(float value);

// The first `limit` elements (all if negative) on one line: "[1 2][3...]...", as Assert and Print write them.
std::string summarize(const Tensor& t, int64_t limit);
// The first and last `edge` elements of each dimension (all if negative), nested and on several lines, as in NumPy.
std::string format(const Tensor& t, int64_t edge);

}  // namespace thalweg
