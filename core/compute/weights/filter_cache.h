// FilterCache: the filter of a convolution in the form that its algorithm needs, kept from step to step.
#pragma once

#include "compute/weights/weight_cache.h"
#include "compute/winograd/winograd.h"

namespace thalweg {

struct FilterCache {
  WeightCache<std::pair<Tensor, Tensor>>
      folded;                            // with the factor of a batch normalization; and the term that goes with it
  WeightCache<Tensor> layout;            // in the layout of oneDNN's primitive
  WeightCache<winograd::Filter> points;  // transformed for Winograd's algorithm
};

}  // namespace thalweg
