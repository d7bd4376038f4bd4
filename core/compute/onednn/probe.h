// Whether oneDNN works on this machine with a given instruction set.
#pragma once

#include <string>

namespace thalweg {

// Runs a small float32 and a small bfloat16 matrix product with oneDNN capped to `isa` (oneDNN's name of it, such as
// "AVX2"). Call it in a child process: on a machine that announces instructions which it cannot run, it never returns.
bool probe_onednn(const std::string& isa);

}  // namespace thalweg
