/* How many threads this process has, by the system's own count: those too that Python has never seen. */
#ifndef ROAMLET_SYSTEM_THREADS_H
#define ROAMLET_SYSTEM_THREADS_H

#ifdef __APPLE__
#include <libproc.h>
#else
#include <dirent.h>
#endif

/* -1: not known. Runs no Python code. */
static int
system_threads(void)
{
#ifdef __APPLE__
    struct proc_taskinfo info;
    return proc_pidinfo(getpid(), PROC_PIDTASKINFO, 0, &info, sizeof info) == (int)sizeof info ? (int)info.pti_threadnum : -1;
#else
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    if (tasks == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count > 0 ? count : -1;
#endif
}

#endif
