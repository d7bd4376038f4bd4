// Lets the core read and write files that Python reaches: paths with a scheme, through thalweg.platform.remote_files.
#pragma once

namespace thalweg {

// Once, when the module is loaded.
void install_remote_files();

}  // namespace thalweg
