#pragma once

#include <mutex>

#include "base/thread_annotations.h"

namespace verbena::host {

/// Guards one shard: its engine, its wires and its connection service.
class CAPABILITY("shard lock") ShardLock {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a shard lock until unlock() or the end of its scope. std::unique_lock would do, but clang
/// doesn't see what it locks.
class SCOPED_CAPABILITY ShardLockHolder {
 public:
  explicit ShardLockHolder(ShardLock& lock) ACQUIRE(lock) : lock_{&lock} { lock.lock(); }
  /// After a successful try_lock().
  ShardLockHolder(ShardLock& lock, std::adopt_lock_t) REQUIRES(lock) : lock_{&lock} {}
  ~ShardLockHolder() RELEASE() {
    if (lock_ != nullptr) lock_->unlock();
  }
  ShardLockHolder(const ShardLockHolder&) = delete;
  ShardLockHolder& operator=(const ShardLockHolder&) = delete;

  void unlock() RELEASE() {
    lock_->unlock();
    lock_ = nullptr;
  }

 private:
  ShardLock* lock_;
};

}  // namespace verbena::host
