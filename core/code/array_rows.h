// ArrayRows: the rows that a loop reads or writes by index, as generated code sees them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::code {

// Each row is noted when it is first used. An index outside of the rows is refused, and where rows may be used once
// only, one that was used.
struct ArrayRows {
  char* base = nullptr;
  int64_t count = 0;           // rows
  int64_t bytes = 0;           // of a row
  char* used = nullptr;        // per row
  int64_t* indices = nullptr;  // of the rows that were used, in order; as many as there are rows
  int64_t num_used = 0;
  char once = 0;  // whether no row may be used twice

  // The row that the loop uses now; null if it is refused.
  char* use(int64_t index) {
    if (index < 0 || index >= count || (once && used[index] != 0)) return nullptr;
    if (used[index] == 0) {
      used[index] = 1;
      indices[num_used++] = index;
    }
    return base + index * bytes;
  }
};

}  // namespace thalweg::code
