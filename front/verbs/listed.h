#pragma once

#include <unordered_set>

#include "front/verbs/nic.h"

namespace verbena::front {

/// Puts an object on its context's list, and takes it off again unless it is kept. To be done
/// before the NIC makes its part: when there is no memory for the list, nothing has to be undone.
template <typename Object>
class Listed {
 public:
  Listed(std::unordered_set<Object*>& list, Object* object) : list_{list}, object_{object} {
    const auto lock = lock_lists();
    list_.insert(object_);
  }
  ~Listed() {
    if (object_ == nullptr) return;
    const auto lock = lock_lists();
    list_.erase(object_);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  void keep() { object_ = nullptr; }

 private:
  std::unordered_set<Object*>& list_;
  Object* object_;
};

}  // namespace verbena::front
