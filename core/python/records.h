// Binds the readers of record, text and fixed-length files, and the writer of records.
#pragma once

#include <nanobind/nanobind.h>

namespace thalweg {

void bind_records(nanobind::module_& m);

}  // namespace thalweg
