#include "engine/constraint.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_IDLE = 64 };   /* grammars that are kept though nobody asks for them now */
enum { MAX_THREADS = 4 }; /* so that one grammar that takes long holds up no others */
enum { BRIEFLY_NS = 50000000 };

enum constraint_state { WAITING, COMPILING, COMPILED, FAILED };

struct constraint {
    struct constraint *next; /* the last one used comes first */
    struct grammar_spec spec;
    char *text;
    uint64_t hash;
    int n_users;
    enum constraint_state state;
    struct grammar *grammar;
    struct err why; /* FAILED */
};

struct constraints {
    struct vocabulary_source source;
    struct vocab *vocab; /* made by the first thread that needs it; vocab_lock is held meanwhile */
    pthread_mutex_t vocab_lock;
    struct constraint *all;
    pthread_mutex_t lock; /* of all below `source` but vocab */
    pthread_cond_t asked, compiled;
    pthread_t thread[MAX_THREADS];
    int n_threads, n_idle, n_compiling, ends;
};

/* ---- the threads */

static struct constraint *first_waiting(const struct constraints *c)
{
    struct constraint *last = NULL; /* who asked first */
    for (struct constraint *k = c->all; k; k = k->next)
        if (k->state == WAITING) last = k;
    return last;
}

/* The vocabulary is there. Not once constraints_stop was called: the tokenizer may be gone. */
static int need_vocab(struct constraints *c, struct err *e)
{
    pthread_mutex_lock(&c->vocab_lock);
    pthread_mutex_lock(&c->lock);
    int ends = c->ends;
    pthread_mutex_unlock(&c->lock);
    int rc = c->vocab ? 0
             : ends   ? err_set(e, "the run ends")
                      : vocabulary_open(&c->vocab, &c->source, e);
    pthread_mutex_unlock(&c->vocab_lock);
    return rc;
}

static void *compile(void *arg)
{
    struct constraints *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->ends) {
        struct constraint *k = first_waiting(c);
        if (!k) {
            c->n_idle++;
            pthread_cond_wait(&c->asked, &c->lock);
            c->n_idle--;
            continue;
        }
        k->state = COMPILING;
        c->n_compiling++;
        pthread_mutex_unlock(&c->lock);
        int rc = need_vocab(c, &k->why);
        if (!rc) rc = grammar_open(&k->grammar, &k->spec, c->vocab, &k->why);
        pthread_mutex_lock(&c->lock);
        c->n_compiling--;
        k->state = rc ? FAILED : COMPILED;
        pthread_cond_broadcast(&c->compiled);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Signals are the main thread's. The lock is held. */
static int start_thread(struct constraints *c, struct err *e)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&c->thread[c->n_threads], NULL, compile, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc && !c->n_threads) return err_set(e, "cannot start a thread: %s", strerror(rc));
    c->n_threads += !rc;
    return 0;
}

/* ---- who asks */

int constraints_open(struct constraints **out, const struct vocabulary_source *source,
                     struct err *e)
{
    struct constraints *c = calloc(1, sizeof *c);
    if (!c) return err_memory(e);
    c->source = *source;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->vocab_lock, NULL);
    pthread_cond_init(&c->asked, NULL);
    pthread_cond_init(&c->compiled, NULL);
    *out = c;
    return 0;
}

static void free_constraint(struct constraint *k)
{
    grammar_close(k->grammar);
    free(k->text);
    free(k);
}

void constraints_stop(struct constraints *c)
{
    if (!c) return;
    pthread_mutex_lock(&c->lock);
    c->ends = 1;
    pthread_cond_broadcast(&c->asked);
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_lock(&c->vocab_lock); /* nobody reads the tokenizer any more */
    pthread_mutex_unlock(&c->vocab_lock);
}

void constraints_close(struct constraints *c)
{
    if (!c) return;
    constraints_stop(c);
    pthread_mutex_lock(&c->lock);
    int is_compiling = c->n_compiling > 0;
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->n_threads; i++)
        if (is_compiling) pthread_detach(c->thread[i]);
        else pthread_join(c->thread[i], NULL);
    if (is_compiling) return; /* the run ends, and does not wait for it: the memory stays */
    for (struct constraint *k = c->all, *next; k; k = next) {
        next = k->next;
        free_constraint(k);
    }
    vocab_close(c->vocab);
    pthread_cond_destroy(&c->compiled);
    pthread_cond_destroy(&c->asked);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->vocab_lock);
    free(c);
}

/* FNV-1a (Fowler, Noll, Vo; 64 bits). */
static uint64_t hash_of(const struct grammar_spec *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s->bytes; i++) h = (h ^ (unsigned char)s->text[i]) * 0x100000001b3u;
    return h;
}

static int have_same_thoughts(const struct grammar_thoughts *a, const struct grammar_thoughts *b)
{
    if (!a->begins || !b->begins) return a->begins == b->begins;
    return !strcmp(a->begins, b->begins) && !strcmp(a->ends, b->ends) &&
           a->begins_is_token == b->begins_is_token && a->ends_is_token == b->ends_is_token &&
           a->is_inside == b->is_inside;
}

static int is_same(const struct grammar_spec *a, const struct grammar_spec *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && a->order == b->order &&
           have_same_thoughts(&a->thoughts, &b->thoughts) && a->space == b->space &&
           a->may_begin_with_space == b->may_begin_with_space &&
           (!a->bytes || !memcmp(a->text, b->text, a->bytes));
}

/* Takes the same constraint out of the list; NULL: there is none. */
static struct constraint *take(struct constraints *c, const struct grammar_spec *spec,
                               uint64_t hash)
{
    for (struct constraint **at = &c->all; *at; at = &(*at)->next) {
        struct constraint *k = *at;
        if (k->hash != hash || !is_same(&k->spec, spec)) continue;
        *at = k->next;
        return k;
    }
    return NULL;
}

static struct constraint *make(const struct grammar_spec *spec, uint64_t hash)
{
    struct constraint *k = calloc(1, sizeof *k);
    if (!k || !(k->text = malloc(spec->bytes + 1))) {
        free(k);
        return NULL;
    }
    if (spec->bytes) memcpy(k->text, spec->text, spec->bytes);
    k->text[spec->bytes] = 0;
    k->spec = *spec;
    k->spec.text = k->text;
    k->hash = hash;
    return k;
}

/* Forgets what was not used for longest, beyond MAX_IDLE. */
static void forget(struct constraints *c)
{
    int n = 0;
    for (struct constraint **at = &c->all; *at;) {
        struct constraint *k = *at;
        if (k->n_users || k->state == COMPILING || ++n <= MAX_IDLE) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free_constraint(k);
    }
}

int constraint_ask(struct constraints *c, const struct grammar_spec *spec, struct constraint **out,
                   struct err *e)
{
    uint64_t hash = hash_of(spec);
    pthread_mutex_lock(&c->lock);
    struct constraint *k = take(c, spec, hash);
    if (!k) k = make(spec, hash);
    int rc = k ? 0 : err_memory(e);
    if (k && k->state == WAITING && c->n_threads < MAX_THREADS && !c->n_idle) {
        rc = start_thread(c, e);
        if (rc) free_constraint(k);
    }
    if (!rc) {
        k->n_users++;
        k->next = c->all;
        c->all = k;
        if (k->state == WAITING) pthread_cond_signal(&c->asked);
        forget(c);
    }
    pthread_mutex_unlock(&c->lock);
    *out = rc ? NULL : k;
    return rc;
}

void constraint_drop(struct constraints *c, struct constraint *k)
{
    if (!k) return;
    pthread_mutex_lock(&c->lock);
    k->n_users--;
    pthread_mutex_unlock(&c->lock);
}

int constraint_get(struct constraints *c, struct constraint *k, int wait, struct grammar **g,
                   struct err *e)
{
    pthread_mutex_lock(&c->lock);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += BRIEFLY_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (wait == CONSTRAINT_WAIT && k->state != COMPILED && k->state != FAILED)
        pthread_cond_wait(&c->compiled, &c->lock);
    if (wait == CONSTRAINT_BRIEFLY && k->state != COMPILED && k->state != FAILED)
        pthread_cond_timedwait(&c->compiled, &c->lock, &until);
    enum constraint_state state = k->state;
    pthread_mutex_unlock(&c->lock);
    if (state == FAILED) *e = k->why;
    if (state == COMPILED) *g = k->grammar;
    return state == FAILED ? -1 : state == COMPILED;
}
