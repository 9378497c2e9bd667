// The control socket of net_memif, made safe against peers that go away at a bad moment.
//
// The driver's server accepts a connection, registers it for events, and then sends its hello. If the
// peer is gone by then (killed, timed out, or another program that only looked), the driver closes the
// descriptor but leaves it registered; DPDK's interrupt thread finds it in its list and ends the process
// (rte_panic, "Error adding fd"). The way to the driver's orderly clean-up is the one for a peer that
// left after the hello. So this file replaces sendmsg() in the process: for a SOCK_SEQPACKET socket, a
// peer that is gone is no error of the send; the next receive reports it. All other sockets see no
// difference.
#pragma once

namespace h4a::dpdk {

/// Call it before a memif device is made: the driver also writes without MSG_NOSIGNAL, so SIGPIPE is
/// ignored from here on, unless the program handles it. Links the replacement in.
void guard_control_socket() noexcept;

}  // namespace h4a::dpdk
