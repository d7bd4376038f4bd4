// Checkpoints of embedding tables: files with rows beside a tensor bundle, whose names a tensor of the bundle lists.
//
// The first checkpoint of a table writes all rows; later ones write a file with the rows that have changed, and link
// the files before it to names of their own: every checkpoint has all its files under its prefix, and removing one
// leaves the others whole. When the changes have become as large as the whole, a thread merges the files into one.
//
// A file is on the disk, under a name that never existed before, before the bundle that lists it appears: a process
// that is killed at any instant leaves the checkpoint before.
#pragma once

#include <memory>

#include "embedding/table.h"

namespace thalweg::embedding {

// Writes what a checkpoint needs of a table; returns the list of its files, to be saved as `key` in the bundle. With
// `full`, all rows are written anew.
std::string save_checkpoint(const std::shared_ptr<EmbeddingTable>& table, const std::string& prefix,
                            const std::string& key, bool full);

// Gives the table the rows of part `part` of `parts` that a checkpoint has under `name`, however many parts it was
// saved in: as lists of files (`name/rows-...`), or as tensors (`name-keys`, `name-values`, perhaps `name-counts` and
// `name-slot-...`). `table/average` are the rows of the table with its moving averages as values. With `follow`, only
// files that have come since the last restore are read, if they continue it. Returns how many files were read.
int64_t restore_checkpoint(const std::shared_ptr<EmbeddingTable>& table, const std::string& prefix,
                           const std::string& name, int64_t part, int64_t parts, bool follow);

// The name of the list of a part.
std::string list_name(const std::string& name, int64_t part, int64_t parts);

}  // namespace thalweg::embedding
