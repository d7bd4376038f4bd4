// Static objects of the core are never destroyed: threads may use them for as long as the process lives.
//
// A program may end while its daemon threads run steps. The process then runs the destructors of static objects on the
// main thread, beside steps that use the objects. Objects register their destructors with __cxa_atexit; the linker puts
// this function in its place (`--wrap` in CMakeLists.txt), so none is registered, in whatever file it is.

extern "C" int __wrap___cxa_atexit(void (*)(void*), void*, void*) { return 0; }
