/* memory.c: device memory: allocations at addresses that the host cannot dereference and that are
 * never reused, so that every access outside a live allocation is detected, use after free
 * included. New memory holds 0xcb bytes (up to FILL_MAX of an allocation) or an earlier
 * allocation's contents, never zeros by chance. Must not know: instructions. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_BASE 0x200000000000ull
enum { GAP = 4096 }; /* between allocations: an overrun hits no other one */
#define FILL_MAX (256ull << 20)

uint64_t memory_total = 16ull << 30;
unsigned memory_generation = 1;
static uint64_t used, next_base = DEVICE_BASE;
/* sorted by base: device addresses only grow; host ranges are sorted in */
static struct alloc *allocs;
static int n_allocs, max_allocs;

/* Host pages of freed allocations, for the next of the same size: device addresses are never
 * reused, pages may be. */
enum { MAX_SPARE = 32 };
#define MAX_SPARE_BYTES (256ull << 20)
static struct {
    void *host;
    uint64_t room;
} spare[MAX_SPARE];
static int n_spare;
static uint64_t spare_bytes;

static uint64_t room_for(uint64_t size) { return size ? (size + GAP - 1) / GAP * GAP : GAP; }

static void *take_pages(uint64_t room)
{
    for (int k = n_spare; k-- > 0;) {
        void *host = spare[k].host;
        if (spare[k].room != room) continue;
        spare_bytes -= room;
        memmove(&spare[k], &spare[k + 1], (size_t)(--n_spare - k) * sizeof *spare);
        return host;
    }
    void *host = mmap(NULL, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) return NULL;
    memset(host, 0xcb, room < FILL_MAX ? room : FILL_MAX);
    return host;
}

/* Frees the oldest to make room. */
static void give_pages(void *host, uint64_t room)
{
    while (n_spare && (n_spare == MAX_SPARE || spare_bytes + room > MAX_SPARE_BYTES)) {
        munmap(spare[0].host, spare[0].room);
        spare_bytes -= spare[0].room;
        memmove(&spare[0], &spare[1], (size_t)--n_spare * sizeof *spare);
    }
    if (room > MAX_SPARE_BYTES) {
        munmap(host, room);
        return;
    }
    spare[n_spare].host = host, spare[n_spare++].room = room;
    spare_bytes += room;
}

static int insert(uint64_t base, uint64_t size, uint8_t *host, int kind)
{
    if (n_allocs == max_allocs) {
        int more = max_allocs ? 2 * max_allocs : 256;
        struct alloc *grown = realloc(allocs, (size_t)more * sizeof *grown);
        if (!grown) return -1;
        allocs = grown, max_allocs = more;
    }
    memory_generation++;
    int at = n_allocs++;
    for (; at > 0 && allocs[at - 1].base > base; at--) allocs[at] = allocs[at - 1];
    allocs[at] = (struct alloc){.base = base, .size = size, .host = host, .kind = (uint8_t)kind};
    return 0;
}

int memory_alloc(uint64_t *addr, uint64_t size, int kind)
{
    if (size > memory_total - used) return -1;
    uint64_t room = room_for(size);
    void *host = take_pages(room);
    if (!host) return -1;
    if (insert(next_base, size, host, kind) < 0) {
        give_pages(host, room);
        return -1;
    }
    *addr = next_base;
    next_base += room + GAP;
    used += size;
    return 0;
}

const struct alloc *memory_find(uint64_t addr)
{
    int lo = 0, hi = n_allocs;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (allocs[mid].base <= addr) lo = mid + 1;
        else hi = mid;
    }
    if (lo == 0) return NULL;
    const struct alloc *a = &allocs[lo - 1];
    return addr - a->base < a->size || addr == a->base ? a : NULL;
}

const struct alloc *memory_below(uint64_t addr)
{
    const struct alloc *best = NULL;
    for (int k = 0; k < n_allocs && allocs[k].base <= addr; k++) best = &allocs[k];
    return best;
}

static struct alloc *exactly(uint64_t addr)
{
    struct alloc *a = (struct alloc *)memory_find(addr);
    return a && a->base == addr && !a->freed ? a : NULL;
}

int memory_free(uint64_t addr)
{
    struct alloc *a = exactly(addr);
    if (!a || a->kind == ALLOC_HOST) return -1;
    give_pages(a->host, room_for(a->size));
    memory_generation++;
    a->freed = true, a->host = NULL;
    used -= a->size;
    if (a->kind == ALLOC_CODE && a == &allocs[n_allocs - 1])
        n_allocs--; /* arguments of a launch: no one else has their address */
    return 0;
}

int memory_add_host(void *p, uint64_t size) { return insert((uintptr_t)p, size, p, ALLOC_HOST); }

int memory_remove_host(void *p)
{
    struct alloc *a = exactly((uintptr_t)p);
    if (!a || a->kind != ALLOC_HOST) return -1;
    memory_generation++;
    memmove(a, a + 1,
            (size_t)(allocs + --n_allocs - a) * sizeof *a); /* the host may reuse the address */
    return 0;
}

uint8_t *memory_host(uint64_t addr, uint64_t size)
{
    const struct alloc *a = memory_find(addr);
    if (!a || a->freed || size > a->size - (addr - a->base)) return NULL;
    return a->host + (addr - a->base);
}

uint64_t memory_used(void) { return used; }
