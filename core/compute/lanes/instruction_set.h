// The best instruction set that really works on this machine (docs/decisions/0002-instruction-set.md).
//
// The answer comes from a function that Python supplies. It is asked at the first use, outside of any lock of ours,
// because it takes the GIL: a thread that waits for the GIL never holds a lock that a thread with the GIL waits for.
// Several threads may ask at once: the function must be thread-safe, and the first answer counts.
#pragma once

#include <functional>
#include <string>

namespace thalweg {

// Sets the function that names the best instruction set to use, in oneDNN's words ("AVX2").
void set_isa_probe(std::function<std::string()> probe);

// What that function answers, "AVX2" without one. No lock may be held when it is first called. Thread-safe.
const std::string& usable_instruction_set();

}  // namespace thalweg
