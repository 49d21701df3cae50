#pragma once

// Clang's thread-safety attributes: they say which lock guards what, and `make lint` has clang
// check it. Other compilers see nothing.
// https://clang.llvm.org/docs/ThreadSafetyAnalysis.html

#if defined(__clang__)
#define VERBENA_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define VERBENA_THREAD_ATTRIBUTE(x)
#endif

// Types.
#define CAPABILITY(name) VERBENA_THREAD_ATTRIBUTE(capability(name))
#define SCOPED_CAPABILITY VERBENA_THREAD_ATTRIBUTE(scoped_lockable)

// Members: read and written only by a thread that holds the lock.
#define GUARDED_BY(lock) VERBENA_THREAD_ATTRIBUTE(guarded_by(lock))

// Functions: the caller holds the lock; must not hold it; gets it; gives it up.
#define REQUIRES(...) VERBENA_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) VERBENA_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) VERBENA_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) VERBENA_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) VERBENA_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
// For the few functions whose locking the analysis can't follow; each says why.
#define NO_THREAD_SAFETY_ANALYSIS VERBENA_THREAD_ATTRIBUTE(no_thread_safety_analysis)
