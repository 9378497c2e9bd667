#!/bin/sh
# /init of the Linux peer: bring up eth0 and rxe0 as the kernel command line
# says, then serve commands and probes on the virtio-serial ports until the machine stops.
#
#   peer.name=NAME peer.mtu=N peer.ip=ADDR/LEN,ADDR/LEN,... peer.rxe=0|1
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
exec >/dev/console 2>&1 </dev/null
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mkdir -p /dev/pts /dev/shm /run/peer /run/netns
mount -t tmpfs run /run && mkdir -p /run/peer /run/lock /run/netns
mount -t tmpfs tmp /tmp
mount -t devpts pts /dev/pts
mount -t debugfs debug /sys/kernel/debug
ulimit -l unlimited
ln -sf /proc/self/fd /dev/fd

name=peer mtu=1500 ips='' rxe=1
for a in $(cat /proc/cmdline); do
  case $a in
    peer.name=*) name=${a#*=} ;;
    peer.mtu=*) mtu=${a#*=} ;;
    peer.ip=*) ips=${a#*=} ;;
    peer.rxe=*) rxe=${a#*=} ;;
  esac
done
hostname "$name"
problems=''
try() { "$@" || { problems="$problems [$*]"; echo "peer: failed: $*"; }; }

try modprobe -a virtio_pci virtio_net virtio_console virtio_rng
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad # addresses are usable at once
ip link set lo up
n=0
while [ ! -e /sys/class/net/eth0 ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
if [ -e /sys/class/net/eth0 ]; then
  echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
  try ip link set eth0 mtu "$mtu" up
  for a in $(echo "$ips" | tr , ' '); do
    case $a in
      *:*) try ip addr add "$a" dev eth0 nodad ;;
      *) try ip addr add "$a" dev eth0 ;;
    esac
  done
else
  problems="$problems [no eth0]"
fi
if [ "$rxe" = 1 ]; then
  try modprobe -a rdma_rxe rdma_ucm ib_umad
  try rdma link add rxe0 type rxe netdev eth0
fi
if grep -q share /sys/bus/virtio/devices/*/mount_tag 2>/dev/null || modprobe 9pnet_virtio; then
  mkdir -p /share
  modprobe 9p && mount -t 9p -o trans=virtio,version=9p2000.L,msize=131072 share /share
fi
echo "${problems:-ok}" >/run/peer/status

# One server for each port. A request is one line, `ID SECONDS BASE64-OF-COMMAND`;
# the reply is three: `O ID BASE64-OF-STDOUT`, `E ID ...STDERR`, `R ID EXIT-STATUS`.
serve() {
  t=/run/peer/${1##*/}
  exec 3<>"$1"
  while :; do
    read -r id secs cmd <&3 || { sleep 0.1; continue; }
    [ "$cmd" ] || continue
    echo "$cmd" | base64 -d >"$t.sh"
    timeout -k 3 "$secs" sh "$t.sh" >"$t.out" 2>"$t.err" </dev/null 3>&-
    rc=$?
    {
      printf 'O %s ' "$id"; base64 -w0 "$t.out"
      printf '\nE %s ' "$id"; base64 -w0 "$t.err"
      printf '\nR %s %s\n' "$id" "$rc"
    } >&3
  done
}
# A probe port becomes the input and output of verbs-probe whenever the host says `probe`; `exit N` follows its end.
probe() {
  exec 3<>"$1"
  while :; do
    read -r word <&3 || { sleep 0.1; continue; }
    [ "$word" = probe ] || continue
    verbs-probe <&3 >&3 2>&1
    echo "exit $?" >&3
  done
}
for p in /sys/class/virtio-ports/vport*; do
  case $(cat "$p/name" 2>/dev/null) in
    peer.*) serve "/dev/${p##*/}" & ;;
    probe.*) probe "/dev/${p##*/}" & ;;
  esac
done
echo "peer: $name ready after $(cut -d' ' -f1 /proc/uptime) s: ${problems:-ok}"
while :; do wait; sleep 1; done
