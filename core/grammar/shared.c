#include "core/grammar/shared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 512 }; /* far more than JSON has */

struct entry {
    uint32_t *key;
    int words;
    struct walk_mask mask;
};

struct shared_masks {
    pthread_mutex_t lock;
    struct entry entry[MAX_ENTRIES];
    int n;
};

int shared_open(struct shared_masks **out, struct err *e)
{
    struct shared_masks *s = calloc(1, sizeof *s);
    if (!s) return err_memory(e);
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return 0;
}

static void free_mask(const struct walk_mask *m)
{
    free(m->bits);
    free(m->end);
    free(m->common);
}

void shared_close(struct shared_masks *s)
{
    if (!s) return;
    for (int i = 0; i < s->n; i++) {
        free(s->entry[i].key);
        free_mask(&s->entry[i].mask);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* The lock is held. */
static const struct walk_mask *find(const struct shared_masks *s, const uint32_t *key, int words)
{
    for (int i = 0; i < s->n; i++)
        if (s->entry[i].words == words &&
            !memcmp(s->entry[i].key, key, (size_t)words * sizeof *key))
            return &s->entry[i].mask;
    return NULL;
}

const struct walk_mask *shared_find(struct shared_masks *s, const uint32_t *key, int words)
{
    pthread_mutex_lock(&s->lock);
    const struct walk_mask *m = find(s, key, words);
    pthread_mutex_unlock(&s->lock);
    return m;
}

int shared_keep(struct shared_masks *s, const uint32_t *key, int words, const struct walk_mask *m,
                const struct walk_mask **kept, struct err *e)
{
    uint32_t *copy = malloc((size_t)words * sizeof *copy);
    int rc = copy ? 0 : err_memory(e);
    if (copy) memcpy(copy, key, (size_t)words * sizeof *copy);
    pthread_mutex_lock(&s->lock);
    *kept = find(s, key, words);
    if (!rc && !*kept && s->n == MAX_ENTRIES) rc = err_set(e, "too many masks");
    if (!rc && !*kept) {
        s->entry[s->n] = (struct entry){copy, words, *m};
        *kept = &s->entry[s->n++].mask;
        copy = NULL;
        m = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(copy);
    if (m) free_mask(m);
    return rc;
}
