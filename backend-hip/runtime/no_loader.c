/* no_loader.c: what a static program (make static) has in place of libc's dynamic loader, which
 * would need the very libraries that such a program does without. */
#include <dlfcn.h>
#include <stddef.h>

void *dlopen(const char *path, int flags)
{
    (void)path, (void)flags;
    return NULL;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
    (void)handle, (void)name;
    return NULL;
}

char *dlerror(void)
{
    return (char *)(size_t)"this program is static: it cannot load a GPU's runtime library";
}
