// Ownership. Every verbs object has one owner, and whatever was made from it keeps it alive: a
// MemoryRegion its ProtectionDomain, that one its Context. So no order of destruction is wrong.
// The count is touched when objects are made and destroyed, never when they are used.
#pragma once

#include <cerrno>
#include <memory>
#include <tuple>
#include <utility>

#include "rdma++/error.h"

namespace rdma {

/// A verbs object shared between its owner and what was made from it.
template <class T>
using Shared = std::shared_ptr<T>;

/// `verb` destroys the object, 0 or an errno value (or -1 and errno) as verbs do; a failure is
/// reported. The parents are let go after it.
template <class T, class Destroy, class... Parents>
[[nodiscard]] Shared<T> own(T* raw, const char* verb, Destroy destroy, Parents... parents) {
  return Shared<T>{raw, [verb, destroy, kept = std::make_tuple(std::move(parents)...)](T* gone) {
                     int code = destroy(gone);
                     if (code < 0) code = errno;
                     if (code != 0) report(concat(verb, ": ", errno_text(code)));
                   }};
}

/// Base of the owners: move-only. A moved-from owner may only be destroyed or assigned to.
template <class T>
class Object {
 public:
  Object(Object&&) noexcept = default;
  Object& operator=(Object&&) noexcept = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  [[nodiscard]] T* raw() const noexcept { return raw_.get(); }
  [[nodiscard]] const Shared<T>& share() const noexcept { return raw_; }

 protected:
  explicit Object(Shared<T> raw) noexcept : raw_{std::move(raw)} {}
  ~Object() = default;

 private:
  Shared<T> raw_;
};

}  // namespace rdma
