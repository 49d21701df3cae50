// rdma++: C++20 on the verbs and rdma_cm of any RDMA device. This header is all of it.
//
// The objects, from the device up:
//   Device, Context, ProtectionDomain, MemoryRegion, Buffer, MemoryWindow, CompletionQueue,
//   QueuePair, SharedReceiveQueue, AddressHandle
// The requests:     Send, Write, Read, FetchAdd, CompareSwap, BindWindow, LocalInvalidate, Recv
// Their end:        Completion
// Meeting a peer:   Listener, Connection (rdma_cm); TcpBootstrap, ConnInfo (by hand)
// Coroutines:       Task, Reactor, AsyncConnection
#pragma once

#include "rdma++/access.h"
#include "rdma++/address_handle.h"
#include "rdma++/async_connection.h"
#include "rdma++/async_event.h"
#include "rdma++/buffer.h"
#include "rdma++/checks.h"
#include "rdma++/cm_channel.h"
#include "rdma++/cm_id.h"
#include "rdma++/completion.h"
#include "rdma++/completion_queue.h"
#include "rdma++/completion_status.h"
#include "rdma++/conn_info.h"
#include "rdma++/connection.h"
#include "rdma++/connection_options.h"
#include "rdma++/context.h"
#include "rdma++/deadline.h"
#include "rdma++/device.h"
#include "rdma++/device_choice.h"
#include "rdma++/error.h"
#include "rdma++/gid.h"
#include "rdma++/gid_table.h"
#include "rdma++/listener.h"
#include "rdma++/memory_region.h"
#include "rdma++/memory_window.h"
#include "rdma++/multicast.h"
#include "rdma++/post_status.h"
#include "rdma++/protection_domain.h"
#include "rdma++/queue_pair.h"
#include "rdma++/queue_pair_attributes.h"
#include "rdma++/queue_pair_builder.h"
#include "rdma++/reactor.h"
#include "rdma++/recv.h"
#include "rdma++/shared_receive_queue.h"
#include "rdma++/slice.h"
#include "rdma++/socket_address.h"
#include "rdma++/task.h"
#include "rdma++/tcp_bootstrap.h"
#include "rdma++/value.h"
#include "rdma++/waiter.h"
#include "rdma++/work_request.h"
#include "rdma++/xrc_domain.h"
