#pragma once

// The shared table of connections, as far as a connection manager sees it.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "cm/connection_record.h"

namespace verbena::cm {

/// All processes of a host have the same one, and each its own FakeRecords.
using FakeTable = std::map<std::uint32_t, ConnectionRecord>;  // by local id

class FakeRecords final : public Records {
 public:
  explicit FakeRecords(FakeTable& table) : table_{table} {}

  void publish(const ConnectionRecord& record) override {
    EXPECT_TRUE(table_.emplace(record.local_id.value(), record).second);
  }
  void withdraw(packet::CommId local_id) override { table_.erase(local_id.value()); }
  [[nodiscard]] bool keeps(packet::CommId local_id) const override {
    return table_.contains(local_id.value());
  }
  bool end_orphan(packet::CommId local_id, packet::CommId remote_id,
                  const IpAddress& remote) override {
    const auto found = table_.find(local_id.value());
    const bool is = found != table_.end() && found->second.remote_id == remote_id &&
                    found->second.route.remote == remote;
    if (is) table_.erase(found);
    return is;
  }

 private:
  FakeTable& table_;
};

}  // namespace verbena::cm
