// One RDMA queue pair driven by a script: for tests that need an exact sequence of
// verbs, and for peers that cannot speak the side protocol of ibv_rc_pingpong or
// perftest. Commands come as lines of `verb key=value...` from standard input, or
// from a FIFO (`verbs-probe FIFO`), which stays open between writers. Numbers are C
// literals, or @OFF: the 64-bit number at OFF of the local buffer. Exit status: 0, or 1 at the first command that failed.
//
//   open  type=rc|uc|ud dev= gid=1 mtu=1024 buf=1048576 psn=0x1000 qkey=0x11111111
//         depth=64 rnr=12 rights=rwa qp_rights=rwa  (of the memory, of the QP)
//                                -> prints "local qpn= psn= gid= rkey= addr= len="
//   connect qpn= psn= gid= rkey= addr=
//         timeout=14 retry=7 rnr_retry=7 rd=4 hop=64 tos=0  (-> INIT, RTR, RTS)
//   listen port= | dial host= port=   exchange those five over TCP, then connect
//                                     (takes connect's other keys too)
//   sync                 wait until the other side of listen/dial says sync too
//   recv  off= len= n=1
//   send  off= len= [imm=] [inv=RKEY] [fence=1] [solicited=1] [inline=1]
//   write off= roff= len= [imm=] [rkey=]
//   read  off= roff= len= [rkey=]
//   cas   off= roff= compare= swap= [rkey=]
//   faa   off= roff= add= [rkey=]
//   mw    off= len= at=  bind a type 2 memory window, put its rkey at `at`, print it
//   wait  n=1 ms=5000 status=0   print n completions, each with that status
//   fill  off= len= seed=        a pattern that depends on seed
//   check off= len= seed=        fail unless the pattern stands there
//   set   off= value=  |  get off=    one 64-bit number
//   state                        print the QP's state
//   say   TEXT                   print it: whoever reads along knows how far this came
//   close                        destroy the QP and its memory; another open may follow
//   sleep ms=
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint8_t *buf;
static uint64_t buf_len, next_id = 1, remote_addr;
static uint32_t remote_rkey, remote_qpn, local_psn, qkey;
static int gid_index, path_mtu, rnr_timer, link_fd = -1;
static enum ibv_qp_type qp_type;
static union ibv_gid local_gid;

static char *words[32];
static int word_count, line_number;

static void fail(const char *what) {
    printf("line %d: %s: %s failed (%s)\n", line_number, words[0], what, strerror(errno));
    exit(1);
}
static const char *text(const char *key, const char *otherwise) {
    size_t n = strlen(key);
    for (int i = 1; i < word_count; i++)
        if (!strncmp(words[i], key, n) && words[i][n] == '=') return words[i] + n + 1;
    return otherwise;
}
static uint64_t num(const char *key, uint64_t otherwise) {
    const char *t = text(key, NULL);
    if (!t) return otherwise;
    if (*t != '@') return strtoull(t, NULL, 0);
    uint64_t off = strtoull(t + 1, NULL, 0), value;
    if (off > buf_len || buf_len - off < 8) {
        errno = ERANGE;
        fail("@offset");
    }
    memcpy(&value, buf + off, 8);
    return value;
}
// off=, len= of the local buffer, checked.
static uint8_t *span(uint64_t *len) {
    uint64_t off = num("off", 0);
    if (off > buf_len || *len > buf_len - off) {
        errno = ERANGE;
        fail("off/len");
    }
    return buf + off;
}

static void print_local(FILE *to) {
    char gid[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, &local_gid, gid, sizeof gid);
    fprintf(to, "local qpn=0x%x psn=0x%x gid=%s rkey=0x%x addr=0x%" PRIxPTR " len=%" PRIu64 "\n", qp->qp_num,
            local_psn, gid, mr->rkey, (uintptr_t)buf, buf_len);
    fflush(to);
}

// r(ead), w(rite), a(tomic), anything else for none
static int rights(const char *letters) {
    return (strchr(letters, 'r') ? IBV_ACCESS_REMOTE_READ : 0) | (strchr(letters, 'w') ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (strchr(letters, 'a') ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void do_open(void) {
    const char *type = text("type", "rc"), *name = text("dev", NULL);
    qp_type = !strcmp(type, "ud") ? IBV_QPT_UD : !strcmp(type, "uc") ? IBV_QPT_UC : IBV_QPT_RC;
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count), *dev = NULL;
    for (int i = 0; i < count; i++)
        if (!dev && (!name || !strcmp(name, ibv_get_device_name(list[i])))) dev = list[i];
    if (!dev || !(ctx = ibv_open_device(dev))) fail("opening the device");
    gid_index = num("gid", 1);
    rnr_timer = num("rnr", 12);
    local_psn = num("psn", 0x1000);
    qkey = num("qkey", 0x11111111);
    uint64_t mtu = num("mtu", 1024);
    path_mtu = mtu >= 4096 ? IBV_MTU_4096 : mtu >= 2048 ? IBV_MTU_2048 : mtu >= 1024 ? IBV_MTU_1024
             : mtu >= 512 ? IBV_MTU_512 : IBV_MTU_256;
    buf_len = num("buf", 1 << 20);
    if (ibv_query_gid(ctx, 1, gid_index, &local_gid)) fail("ibv_query_gid");
    if (posix_memalign((void **)&buf, 4096, buf_len)) fail("allocation");
    memset(buf, 0, buf_len);
    unsigned depth = num("depth", 64);
    int access = IBV_ACCESS_LOCAL_WRITE | rights(text("rights", "rwa"));
    if (!(pd = ibv_alloc_pd(ctx))) fail("ibv_alloc_pd");
    if (!(cq = ibv_create_cq(ctx, 2 * depth, NULL, NULL, 0))) fail("ibv_create_cq");
    if (!(mr = ibv_reg_mr(pd, buf, buf_len, access | IBV_ACCESS_MW_BIND)) && !(mr = ibv_reg_mr(pd, buf, buf_len, access)))
        fail("ibv_reg_mr");
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = qp_type, .sq_sig_all = 1,
        .cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64}};
    if (!(qp = ibv_create_qp(pd, &init))) fail("ibv_create_qp");
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey,
        .qp_access_flags = rights(text("qp_rights", "rwa"))};
    if (qp_type == IBV_QPT_UC) a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  (qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
        fail("to INIT");
    print_local(stdout);
}

static void do_close(void) {
    if (ah) ibv_destroy_ah(ah);
    if (ibv_destroy_qp(qp)) fail("ibv_destroy_qp");
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(ctx);
    free(buf);
    qp = NULL, ah = NULL;
}

static void do_connect(uint32_t qpn, uint32_t psn, const char *gid, uint32_t rkey, uint64_t addr) {
    remote_qpn = qpn, remote_rkey = rkey, remote_addr = addr;
    struct ibv_ah_attr path = {.is_global = 1, .port_num = 1,
        .grh = {.sgid_index = gid_index, .hop_limit = num("hop", 64), .traffic_class = num("tos", 0)}};
    if (inet_pton(AF_INET6, gid, &path.grh.dgid) != 1) fail("gid");
    struct ibv_qp_attr r = {.qp_state = IBV_QPS_RTR, .path_mtu = path_mtu, .dest_qp_num = qpn, .rq_psn = psn,
        .max_dest_rd_atomic = num("rd", 4), .min_rnr_timer = rnr_timer, .ah_attr = path};
    int rm = IBV_QP_STATE, sm = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp_type != IBV_QPT_UD) rm |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp_type == IBV_QPT_RC) {
        rm |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        sm |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    if (ibv_modify_qp(qp, &r, rm)) fail("to RTR");
    struct ibv_qp_attr s = {.qp_state = IBV_QPS_RTS, .sq_psn = local_psn, .timeout = num("timeout", 14),
        .retry_cnt = num("retry", 7), .rnr_retry = num("rnr_retry", 7), .max_rd_atomic = num("rd", 4)};
    if (ibv_modify_qp(qp, &s, sm)) fail("to RTS");
    if (qp_type == IBV_QPT_UD && !(ah = ibv_create_ah(pd, &path))) fail("ibv_create_ah");
    printf("connected qpn=0x%x psn=0x%x gid=%s rkey=0x%x addr=0x%" PRIx64 "\n", qpn, psn, gid, rkey, addr);
}

static void do_meet(void) {
    const char *host = text("host", NULL), *port = text("port", "7000");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE, .ai_family = host ? 0 : AF_INET6}, *ai;
    if (getaddrinfo(host, port, &hints, &ai)) fail("host/port");
    if (host) {
        for (int tries = 0;; tries++) {
            link_fd = socket(ai->ai_family, SOCK_STREAM, 0);
            if (!connect(link_fd, ai->ai_addr, ai->ai_addrlen)) break;
            close(link_fd);
            if (tries == 100) fail("connecting");
            usleep(100000);
        }
    } else {
        int l = socket(ai->ai_family, SOCK_STREAM, 0), on = 1;
        setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(l, ai->ai_addr, ai->ai_addrlen) || listen(l, 1)) fail("listening");
        if ((link_fd = accept(l, NULL, NULL)) < 0) fail("accept");
        close(l);
    }
    freeaddrinfo(ai);
    char line[256], gid[64];
    uint32_t qpn, psn, rkey;
    uint64_t addr;
    FILE *out = fdopen(dup(link_fd), "w"), *in = fdopen(dup(link_fd), "r");
    setvbuf(in, NULL, _IONBF, 0); // leaves what follows the line to `sync`
    print_local(out);
    if (!fgets(line, sizeof line, in) || sscanf(line, "local qpn=0x%x psn=0x%x gid=%63s rkey=0x%x addr=0x%" SCNx64, &qpn,
                                                &psn, gid, &rkey, &addr) != 5)
        fail("the other side's line");
    fclose(in);
    fclose(out);
    do_connect(qpn, psn, gid, rkey, addr);
}

static void do_sync(void) {
    char c = 's';
    if (write(link_fd, &c, 1) != 1 || read(link_fd, &c, 1) != 1) fail("the other side");
}

static void do_recv(void) {
    uint64_t len = num("len", 4096), n = num("n", 1);
    uint8_t *at = span(&len);
    for (uint64_t i = 0; i < n; i++) {
        struct ibv_sge sge = {(uintptr_t)at, len, mr->lkey};
        struct ibv_recv_wr wr = {.wr_id = next_id++, .sg_list = &sge, .num_sge = 1}, *bad;
        if ((errno = ibv_post_recv(qp, &wr, &bad))) fail("ibv_post_recv");
    }
}

static void do_post(const char *verb) {
    int atomic = !strcmp(verb, "cas") || !strcmp(verb, "faa");
    uint64_t len = atomic ? 8 : num("len", 64);
    struct ibv_sge sge = {(uintptr_t)span(&len), len, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = next_id++, .sg_list = &sge, .num_sge = len ? 1 : 0, .send_flags = IBV_SEND_SIGNALED}, *bad;
    int imm = text("imm", NULL) != NULL;
    if (imm) wr.imm_data = htonl(num("imm", 0));
    if (num("fence", 0)) wr.send_flags |= IBV_SEND_FENCE;
    if (num("solicited", 0)) wr.send_flags |= IBV_SEND_SOLICITED;
    if (num("inline", 0)) wr.send_flags |= IBV_SEND_INLINE;
    uint64_t addr = remote_addr + num("roff", 0);
    uint32_t rkey = num("rkey", remote_rkey);
    if (atomic) {
        wr.opcode = *verb == 'c' ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.remote_addr = addr, wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = *verb == 'c' ? num("compare", 0) : num("add", 1);
        wr.wr.atomic.swap = num("swap", 0);
    } else if (!strcmp(verb, "send")) {
        wr.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        if (text("inv", NULL)) wr.opcode = IBV_WR_SEND_WITH_INV, wr.invalidate_rkey = num("inv", 0);
        if (qp_type == IBV_QPT_UD) wr.wr.ud.ah = ah, wr.wr.ud.remote_qpn = remote_qpn, wr.wr.ud.remote_qkey = num("qkey", qkey);
    } else {
        wr.opcode = *verb == 'r' ? IBV_WR_RDMA_READ : imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = addr, wr.wr.rdma.rkey = rkey;
    }
    if ((errno = ibv_post_send(qp, &wr, &bad))) fail("ibv_post_send");
}

static void do_mw(void) {
    uint64_t len = num("len", 4096);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    if (!mw) fail("ibv_alloc_mw");
    struct ibv_send_wr wr = {.wr_id = next_id++, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)span(&len), len, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    if ((errno = ibv_post_send(qp, &wr, &bad))) fail("ibv_post_send");
    uint64_t rkey = wr.bind_mw.rkey, at = num("at", buf_len);
    if (at <= buf_len && buf_len - at >= 8) memcpy(buf + at, &rkey, 8);
    printf("mw rkey=0x%x\n", wr.bind_mw.rkey);
}

static void do_wait(void) {
    uint64_t n = num("n", 1), ms = num("ms", 5000);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t end = t.tv_sec * 1000 + t.tv_nsec / 1000000 + ms;
    while (n) {
        struct ibv_wc wc;
        int got = ibv_poll_cq(cq, 1, &wc);
        if (got < 0) fail("ibv_poll_cq");
        if (!got) {
            clock_gettime(CLOCK_MONOTONIC, &t);
            if ((uint64_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000) > end) {
                errno = ETIMEDOUT;
                fail("completion");
            }
            usleep(500);
            continue;
        }
        n--;
        printf("wc id=%" PRIu64 " status=%d (%s)", wc.wr_id, wc.status, ibv_wc_status_str(wc.status));
        if (wc.status == IBV_WC_SUCCESS) {
            printf(" opcode=%d len=%u", wc.opcode, wc.byte_len);
            if (wc.wc_flags & IBV_WC_WITH_IMM) printf(" imm=0x%x", ntohl(wc.imm_data));
            if (wc.wc_flags & IBV_WC_WITH_INV) printf(" inv=0x%x", wc.invalidated_rkey);
            if (wc.opcode & IBV_WC_RECV && qp_type == IBV_QPT_UD) printf(" src_qp=0x%x", wc.src_qp);
        }
        puts("");
        if (text("status", NULL) ? wc.status != num("status", 0) : wc.status != IBV_WC_SUCCESS) {
            errno = EIO;
            fail("the status expected");
        }
    }
}

static uint8_t pattern(uint64_t i, uint64_t seed) { return (uint8_t)(i * 7 + (i >> 8) + seed); }

static void do_line(char *line) {
    word_count = 0;
    line[strcspn(line, "#\n")] = 0;
    for (char *w = strtok(line, " \t"); w && word_count < 32; w = strtok(NULL, " \t")) words[word_count++] = w;
    if (!word_count) return;
    const char *verb = words[0];
    uint64_t len = num("len", 8);
    if (!strcmp(verb, "sleep")) { usleep(num("ms", 100) * 1000); return; }
    if (!strcmp(verb, "say")) { printf("%s\n", word_count > 1 ? words[1] : ""); return; }
    if (!strcmp(verb, "open")) { do_open(); return; }
    if (!qp) { errno = EINVAL; fail("open comes first;"); }
    if (!strcmp(verb, "connect"))
        do_connect(num("qpn", 0), num("psn", 0x1000), text("gid", ""), num("rkey", 0), num("addr", 0));
    else if (!strcmp(verb, "listen") || !strcmp(verb, "dial")) do_meet();
    else if (!strcmp(verb, "sync")) do_sync();
    else if (!strcmp(verb, "close")) do_close();
    else if (!strcmp(verb, "recv")) do_recv();
    else if (!strcmp(verb, "send") || !strcmp(verb, "write") || !strcmp(verb, "read") || !strcmp(verb, "cas") || !strcmp(verb, "faa"))
        do_post(verb);
    else if (!strcmp(verb, "mw")) do_mw();
    else if (!strcmp(verb, "wait")) do_wait();
    else if (!strcmp(verb, "fill")) {
        uint8_t *at = span(&len);
        uint64_t seed = num("seed", 1);
        for (uint64_t i = 0; i < len; i++) at[i] = pattern(i, seed);
    } else if (!strcmp(verb, "check")) {
        uint8_t *at = span(&len);
        uint64_t seed = num("seed", 1);
        for (uint64_t i = 0; i < len; i++)
            if (at[i] != pattern(i, seed)) {
                printf("byte %" PRIu64 " is 0x%02x\n", i, at[i]);
                errno = EIO;
                fail("the pattern");
            }
        printf("check ok len=%" PRIu64 "\n", len);
    } else if (!strcmp(verb, "set") || !strcmp(verb, "get")) {
        uint64_t value = num("value", 0);
        len = 8;
        uint8_t *at = span(&len);
        if (*verb == 's') memcpy(at, &value, 8);
        memcpy(&value, at, 8);
        printf("u64 0x%" PRIx64 "\n", value);
    } else if (!strcmp(verb, "state")) {
        struct ibv_qp_attr a;
        struct ibv_qp_init_attr i;
        if (ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &i)) fail("ibv_query_qp");
        printf("state=%d sq_psn=0x%x rq_psn=0x%x\n", a.qp_state, a.sq_psn, a.rq_psn);
    } else {
        errno = EINVAL;
        fail("unknown command;");
    }
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    // O_RDWR keeps a FIFO open when a writer goes away
    FILE *in = argc > 1 ? fdopen(open(argv[1], O_RDWR), "r") : stdin;
    if (!in) { perror("verbs-probe"); return 1; }
    char line[1024];
    while (fgets(line, sizeof line, in)) {
        line_number++;
        if (!strcmp(line, "quit\n")) break;
        do_line(line);
    }
    return 0;
}
